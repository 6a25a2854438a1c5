# results: W1, b1, W2, b2, losses, accuracy, best
# %%
import numpy as np

rng = np.random.default_rng(7)
X = rng.normal(size=(300, 2))
y = (X[:, 0] * X[:, 1] > 0).astype(float).reshape(-1, 1)
# %%
hidden, rate = 12, 0.5
W1, b1 = rng.normal(scale=0.5, size=(2, hidden)), np.zeros(hidden)
W2, b2 = rng.normal(scale=0.5, size=(hidden, 1)), np.zeros(1)
parameters = [W1, b1, W2, b2]
velocity = [np.zeros_like(p) for p in parameters]
losses = []


def forward(batch):
    h = np.tanh(batch @ W1 + b1)
    return h, 1 / (1 + np.exp(-(h @ W2 + b2)))
# %%
best = (np.inf, None)
for epoch in range(40):
    order = rng.permutation(len(X))
    for part in np.array_split(order, 6):
        h, p = forward(X[part])
        error = (p - y[part]) / len(part)
        back = error @ W2.T * (1 - h**2)
        gradients = [X[part].T @ back, back.sum(axis=0), h.T @ error, error.sum(axis=0)]
        for value, speed, gradient in zip(parameters, velocity, gradients):
            speed *= 0.9
            speed -= rate * gradient
            value += speed
    _, p = forward(X)
    loss = float(-(y * np.log(p + 1e-9) + (1 - y) * np.log(1 - p + 1e-9)).mean())
    losses.append(round(loss, 10))
    if loss < best[0]:
        best = (loss, epoch)
    if epoch % 10 == 0:
        print(f"epoch {epoch:3d} loss {loss:.5f}")
# %%
accuracy = float(((forward(X)[1] > 0.5) == y).mean())
parameters[0] is W1, round(accuracy, 4)
