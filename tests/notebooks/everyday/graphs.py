# results: graph, distances, parents, order, components, ranks, mst
# %%
import heapq
import random
from collections import defaultdict, deque

random.seed(77)
graph = defaultdict(dict)
for a in range(40):
    for b in random.sample(range(40), 3):
        if a != b:
            graph[a][b] = graph[b][a] = random.randint(1, 20)
sum(map(len, graph.values()))
# %%
distances, parents = {0: 0}, {}
heap = [(0, 0)]
while heap:
    cost, node = heapq.heappop(heap)
    if cost > distances[node]:
        continue
    for other, weight in graph[node].items():
        if cost + weight < distances.get(other, float("inf")):
            distances[other] = cost + weight
            parents[other] = node
            heapq.heappush(heap, (distances[other], other))
print(max(distances.values()))
# %%
order, seen, queue = [], {0}, deque([0])
while queue:
    node = queue.popleft()
    order.append(node)
    for other in sorted(graph[node]):
        if other not in seen:
            seen.add(other)
            queue.append(other)
components = len(order) == len(graph)
# %%
ranks = {node: 1 / len(graph) for node in graph}
for _ in range(30):
    fresh = {node: 0.15 / len(graph) for node in graph}
    for node, others in graph.items():
        for other in others:
            fresh[other] += 0.85 * ranks[node] / len(others)
    ranks = fresh
[node for node, _ in sorted(ranks.items(), key=lambda item: -item[1])[:3]]
# %%
class Union:
    def __init__(self, size):
        self.parent = list(range(size))

    def find(self, a):
        while self.parent[a] != a:
            self.parent[a] = self.parent[self.parent[a]]
            a = self.parent[a]
        return a

    def join(self, a, b):
        a, b = self.find(a), self.find(b)
        self.parent[a] = b
        return a != b


union, mst = Union(40), []
for weight, a, b in sorted((w, a, b) for a in graph for b, w in graph[a].items() if a < b):
    if union.join(a, b):
        mst.append((a, b, weight))
len(mst), sum(weight for *_, weight in mst)
