# results: calls, fibonacci, table, distances, pipeline_result
# always runs: its functions remember what they were asked
# %%
import functools
import time

calls = {"slow": 0}


def counted(function):
    @functools.wraps(function)
    def inner(*args):
        calls[function.__name__] = calls.get(function.__name__, 0) + 1
        return function(*args)

    return inner


def memoized(function):
    memory = {}

    @functools.wraps(function)
    def inner(*args):
        if args not in memory:
            memory[args] = function(*args)
        return memory[args]

    inner.memory = memory
    return inner
# %%
@memoized
@counted
def slow(n):
    time.sleep(0.001)
    return n * n


table = [slow(n % 5) for n in range(20)]
print(calls)
# %%
@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


fibonacci = [fib(n) for n in range(40)]
fib.cache_info().currsize
# %%
@functools.lru_cache(maxsize=500)
def edit_distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return edit_distance(a[1:], b[1:])
    return 1 + min(edit_distance(a[1:], b), edit_distance(a, b[1:]), edit_distance(a[1:], b[1:]))


distances = {}
for a in ("kitten", "sitting", "kernel"):
    for b in ("mitten", "colonel"):
        distances[a, b] = edit_distance(a, b)
distances
# %%
pipeline = [functools.partial(map, lambda v: v + 1), functools.partial(filter, lambda v: v % 2), list]
pipeline_result = functools.reduce(lambda value, stage: stage(value), pipeline, table)
table += [slow(9), slow(9)]
calls["slow"], len(slow.memory), pipeline_result
