# results: documents, vocabulary, tfidf, ranked, bigrams
# %%
import math
import re
from collections import Counter, defaultdict

import numpy as np
# %%
raw = """The kernel died in the night. Nobody saw the kernel die.
A notebook remembers what the kernel forgot.
Cells run in order; cells run again, and cells are edited.
The night was long and the cells were slow, said the notebook.
Checkpoints are what a notebook remembers of its cells."""
documents = [re.findall(r"[a-z]+", line.lower()) for line in raw.splitlines()]
len(documents)
# %%
stop = {"the", "a", "in", "and", "of", "its", "was", "are"}
for words in documents:
    words[:] = [word for word in words if word not in stop]
vocabulary = {word: at for at, word in enumerate(sorted({word for words in documents for word in words}))}
print(len(vocabulary), "words")
# %%
df = Counter(word for words in documents for word in set(words))
tfidf = np.zeros((len(documents), len(vocabulary)))
for row, words in enumerate(documents):
    for word, count in Counter(words).items():
        tfidf[row, vocabulary[word]] = count / len(words) * math.log(len(documents) / df[word])
norms = np.linalg.norm(tfidf, axis=1, keepdims=True)
tfidf /= norms
# %%
def search(query, top=3):
    vector = np.zeros(len(vocabulary))
    for word in query.split():
        if word in vocabulary:
            vector[vocabulary[word]] += 1
    similarity = tfidf @ vector
    return [(int(at), round(float(similarity[at]), 4)) for at in np.argsort(-similarity, kind="stable")[:top]]


ranked = {query: search(query) for query in ("kernel night", "notebook remembers", "slow cells")}
ranked
# %%
bigrams = defaultdict(int)
for words in documents:
    for pair in zip(words, words[1:]):
        bigrams[pair] += 1
sorted(bigrams.items(), key=lambda item: (-item[1], item[0]))[:3]
