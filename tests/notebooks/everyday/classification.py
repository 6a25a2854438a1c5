# results: X_train, y_test, scores, best_depth, matrix, importances, predicted
# %%
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, confusion_matrix
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

np.random.seed(0)
# %%
X, y = make_classification(n_samples=400, n_features=8, n_informative=4)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25)
X_train.shape, X_test.shape
# %%
baseline = make_pipeline(StandardScaler(), LogisticRegression())
baseline.fit(X_train, y_train)
print("baseline", round(accuracy_score(y_test, baseline.predict(X_test)), 3))
# %%
scores = {}
for depth in (1, 2, 3, 5):
    model = RandomForestClassifier(n_estimators=10, max_depth=depth, random_state=depth)
    scores[depth] = cross_val_score(model, X_train, y_train, cv=3).round(4).tolist()
    print(depth, scores[depth])
best_depth = max(scores, key=lambda depth: np.mean(scores[depth]))
# %%
model = RandomForestClassifier(n_estimators=15, max_depth=best_depth)
model.fit(X_train, y_train)
predicted = model.predict(X_test)
# %%
matrix = confusion_matrix(y_test, predicted)
importances = model.feature_importances_.round(6)
matrix
