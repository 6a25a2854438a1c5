# needs: torch
# results: sizes, history, best, frozen, tuned, confusion, predicted, rates
# %%
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
torch.set_num_threads(1)
# %%
centres = torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])
labels = torch.randint(0, 3, (300,))
points = centres[labels] + torch.randn(300, 2)
train, held_out = TensorDataset(points[:240], labels[:240]), TensorDataset(points[240:], labels[240:])
sizes = len(train), len(held_out)
points.mean(0)
# %%
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Dropout(0.1))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.body(x))


def accuracy(net, data):
    net.eval()
    with torch.no_grad():
        hits = sum(int((net(x).argmax(1) == y).sum()) for x, y in DataLoader(data, batch_size=60))
    net.train()
    return hits / len(data)


net = Net(16)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
loss_of = nn.CrossEntropyLoss()
# %%
history, rates, best, kept = [], [], 0.0, None
for epoch in range(12):
    total = 0.0
    for x, y in DataLoader(train, batch_size=24, shuffle=True):
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    schedule.step()
    score = accuracy(net, held_out)
    history.append((round(total, 5), score))
    rates.append(schedule.get_last_lr()[0])
    if score > best:
        best, kept = score, copy.deepcopy(net.state_dict())
    if epoch % 4 == 3:
        print(f"epoch {epoch + 1}: loss {total:.4f}, accuracy {score:.3f}")
# %%
net.load_state_dict(kept)
for parameter in net.body.parameters():
    parameter.requires_grad_(False)
frozen = [name for name, parameter in net.named_parameters() if not parameter.requires_grad]
tuner = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
tuned = []
for step in range(30):
    batch = torch.randperm(240)[:32]
    loss = loss_of(net(points[batch]), labels[batch])
    tuner.zero_grad()
    loss.backward()
    tuner.step()
    tuned.append(round(loss.item(), 5))
tuned[-1]
# %%
net.eval()
with torch.no_grad():
    predicted = net(points[240:]).argmax(1).tolist()
confusion = [[0] * 3 for _ in range(3)]
for truth, guess in zip(labels[240:].tolist(), predicted):
    confusion[truth][guess] += 1
confusion
