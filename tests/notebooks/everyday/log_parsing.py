# results: lines, records, errors, summary, report
# %%
import json
import random
import re
from collections import Counter
from pathlib import Path

random.seed(12)
folder = Path("logs")
folder.mkdir(exist_ok=True)
# %%
for day in range(3):
    with open(folder / f"day{day}.log", "w") as file:
        for n in range(60):
            level = random.choices(["INFO", "WARN", "ERROR"], [8, 2, 1])[0]
            file.write(f"2024-05-0{day + 1}T{n // 60:02d}:{n % 60:02d} [{level}] user={random.randint(1, 9)} took {random.randint(1, 500)}ms\n")
        print("written", file.name)
    file = None
# %%
pattern = re.compile(r"(?P<at>\S+) \[(?P<level>\w+)\] user=(?P<user>\d+) took (?P<ms>\d+)ms")
lines, records = 0, []
for path in sorted(folder.glob("*.log")):
    for text in path.read_text().splitlines():
        lines += 1
        found = pattern.match(text)
        if found is None:
            continue
        records.append({**found.groupdict(), "ms": int(found["ms"])})
lines, len(records)
# %%
errors = Counter(record["user"] for record in records if record["level"] == "ERROR")
summary = {level: sum(r["ms"] for r in records if r["level"] == level) for level in ("INFO", "WARN", "ERROR")}
with open("report.json", "w") as out:
    json.dump({"errors": errors, "summary": summary}, out, sort_keys=True)
out = None
# %%
report = json.loads(Path("report.json").read_text())
assert report["summary"] == summary
report
