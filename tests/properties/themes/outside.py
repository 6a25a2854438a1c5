"""Files in many formats, modules on disk, the environment, threads: what is not in a variable, or not only."""

from __future__ import annotations

from tests.properties.themes.theme import Theme

FILES = Theme(
    begin=("save_text('p1.txt', {l})", "pathlib.Path('p2.txt').write_text('[{#}]')"),
    statements=(
        "with open('p1.txt', 'w', newline='') as p0: csv.writer(p0).writerows([[{n}, {#}], {l}])",
        "with open('p1.txt') as p0: {M} = list(csv.reader(p0))",
        "with open('p1.txt') as p0:\n    for x in csv.DictReader(p0, ['a', 'b']):\n        {*}",
        # Of other names than those that are read: how much of it is there while it is written is up to its buffer.
        "with open('q{#}.txt', 'w') as p0:\n    _ = p0.write('{#}:')\n    for n0 in range({#}):\n"
        "        _ = p0.write(f'{n0 + {n}};')\n        {*}",
        "with open('q1.txt', 'w', newline='') as p0:\n    p9 = csv.writer(p0)\n    p9.writerow(['{#}'])\n"
        "    for n0, x in enumerate({l}):\n        p9.writerow([n0, {n}])\n        {*}\ndel p9",
        "with open('q{#}.txt', 'wb') as p0:\n    for n0 in range({#}):\n        {*}\n        _ = p0.write(b'{#};')",
        "i8 = csv.reader(open('p1.txt')); {L} = next(i8)",
        "json.dump({d}, open('p2.txt', 'w'), default=str)",
        "pathlib.Path('p2.txt').write_text(json.dumps({l}))",
        "{D} = json.loads(pathlib.Path('p2.txt').read_text())",
        "with open('p2.txt') as p0: {L} = json.load(p0)",
        "pickle.dump({l}, open('p3.txt', 'wb'))",
        "with open('p3.txt', 'wb') as p0: pickle.dump([{l}, {l}, {#}], p0)",
        "with open('p3.txt', 'rb') as p0: {M} = pickle.load(p0)",
        "with contextlib.closing(sqlite3.connect('p4.txt')) as p0, p0:\n"
        "    _ = p0.execute('create table if not exists t (n, x)')\n"
        "    _ = p0.execute('insert into t values (?, ?)', ({n}, {#}))",
        "with contextlib.closing(sqlite3.connect('p4.txt')) as p0: {L} = [x for x, in p0.execute('select n from t')]",
        "b8 = sqlite3.connect('p4.txt')",
        "{M} = list(map(list, b8.execute('select * from t')))",
        "_ = b8.execute('delete from t where n > {#}'); b8.commit()",
        "b8.close()",
        "{F} = pd.read_sql('select * from t', b8)",
        "b7 = sqlite3.connect(':memory:'); _ = b7.execute('create table m (n)'); "
        "_ = b7.execute('insert into m values ({#})')",
        "_ = b7.execute('update m set n = n + {#}')",
        "{N} = b7.execute('select n from m').fetchone()[0]",
        "x8 = pathlib.Path('p5.txt')",
        "_ = x8.write_text(str({l}))",
        "{T} = x8.read_text()",
        "{N} = x8.exists()",
        "x8.unlink(missing_ok=True)",
        "x8 = x8.with_name('p{#}.txt')",
        "x8.touch()",
        "_ = x8.rename('p6.txt')",
        "{N} = x8.stat().st_size",
        "{L} = sorted(p.name for p in pathlib.Path().glob('p*.txt'))",
        "os.makedirs('sub', exist_ok=True)\npathlib.Path('sub/s{#}').write_text('{#}')",
        "{L} = sorted(os.listdir('sub')) if os.path.isdir('sub') else []",
        "{T} = ''.join(p.read_text() for p in sorted(pathlib.Path('sub').glob('s*')))",
        "shutil.rmtree('sub', ignore_errors=True)",
        "with tempfile.TemporaryDirectory() as p0:\n    _ = pathlib.Path(p0, 'x').write_text('{#}')\n"
        "    {T} = pathlib.Path(p0, 'x').read_text()\ndel p0",
        "with tempfile.NamedTemporaryFile('w+') as p0:\n    _ = p0.write('{n}')\n    _ = p0.seek(0)\n"
        "    {T} = p0.read()\ndel p0",
        "with zipfile.ZipFile('p6.txt', 'w') as p0: p0.writestr(zipfile.ZipInfo('a'), str({l}))",
        "with zipfile.ZipFile('p6.txt') as p0: {T} = p0.read('a').decode()",
        "with gzip.GzipFile('p7.txt', 'wb', mtime=0) as p0: _ = p0.write(b'{#}')",
        "with gzip.open('p7.txt') as p0: {T} = p0.read().decode()",
        "shutil.copy('p1.txt', 'p2.txt')",
        "shutil.move('p2.txt', 'p3.txt')",
        "h8 = open('p8.txt', 'w')",
        "_ = h8.write('{#}')",
        "h8.close()",
        "h8.flush()",
        "with open('p8.txt') as h8: {T} = h8.readline()",
        "h7 = open('p1.txt'); {T} = h7.readline()",
        "{T} = h7.read()",
        "for x in h7: {N} = len(x)",
        "h7.seek(0)",
        "for n0 in range(3):\n    with open(f'p{n0}.txt', 'w') as p0: _ = p0.write(str({n} + n0))",
        "{L} = [open(f'p{n0}.txt').read() for n0 in range(3)]",
        "with open('p9.txt', 'r+') as p0:\n    _ = p0.seek(1)\n    _ = p0.write('{#}')",
        "pathlib.Path('p9.txt').write_bytes(bytes([65, 66, 67]))",
        "{T} = load_text('p{#}.txt')",
        "save_text('p{#}.txt', {l})",
        "{N} = filecmp.cmp('p1.txt', 'p2.txt', shallow=False)",
        "{T} = linecache.getline('p1.txt', 1)",
        "for x in fileinput.input(['p1.txt', 'p2.txt']): {N} = len(x)",
        "{T} = subprocess.run(['cat', 'p1.txt'], capture_output=True, text=True).stdout",
        "c8 = configparser.ConfigParser(); _ = c8.read('p2.txt'); c8['s'] = {'k': '{#}'}",
        "with open('p2.txt', 'w') as p0: c8.write(p0)",
        "{N} = int(c8['s']['k'])",
    ),
    alone=(
        # Begun again by what stands before it, or lines of an iteration that was not saved would stay.
        "_ = open('p6.txt', 'w').write('{#};')\nfor n0 in range({#}):\n    {*}\n"
        "    with open('p6.txt', 'a') as p0: _ = p0.write(f'{n0 + {n}};')",
        "if os.path.exists('p5.txt'): os.remove('p5.txt')\nfor n0 in range({#}):\n"
        "    {N} = len({l})\n    with open('p5.txt', 'a') as p0: _ = p0.write(f'{{n}};')",
    ),
    definitions={
        "load_text": (
            "def load_text(name, default='{#}'):\n    try:\n        with open(name) as file:\n"
            "            return file.read()\n"
            "    except FileNotFoundError:\n        return default",
            "def load_text(name):\n    path = pathlib.Path(name)\n"
            "    return path.read_text() if path.exists() else str({n})",
        ),
        "save_text": (
            "def save_text(name, what):\n    with open(name, 'w') as file:\n        file.write(f'{what} {#}')",
            "def save_text(name, what):\n    if not os.path.exists(name):\n"
            "        pathlib.Path(name).write_text(str(what))",
        ),
    },
)

MODULES = Theme(
    begin=("_ = pathlib.Path('mod.py').write_text(MOD); importlib.invalidate_caches()", "import mod"),
    statements=(
        "_ = pathlib.Path('mod.py').write_text(MOD); importlib.invalidate_caches()",
        "_ = pathlib.Path('mod.py').write_text(MOD.replace('1', '{#}')); importlib.invalidate_caches()",
        "import mod",
        "from mod import level, up",
        "mod = importlib.reload(mod)",
        "importlib.reload(mod); {N} = mod.level",
        "{N} = mod.up({#})",
        "{N} = up({#})",
        "{G} = mod.up",
        "mod.level = {#}",
        "mod.held.append({#})",
        "{L} = mod.held",
        "{O} = mod.Part({l})",
        "mod.Part.size = {#}",
        "mod.up = lambda v: v * {#}",
        "mod.extra = {l}",
        "{N} = mod.level",
        "sys.modules.pop('mod', None)",
        "del mod",
        "{V} = mod",
        "made8 = types.ModuleType('made8'); made8.level = {#}; sys.modules['made8'] = made8",
        "import made8; {N} = made8.level",
        "made8.level = {#}",
        "math.tau8 = {#}",
        "{N} = math.tau8",
        "json.dumps8 = lambda v: {#}; {N} = json.dumps8(1)",
        "was8 = math.floor; math.floor = lambda v: {#}",
        "{N} = math.floor({n} + 0.5)",
        "math.floor = was8",
        "builtins.shared8 = {#}",
        "{N} = shared8",
        "{N} = 'mod' in sys.modules",
        "sys.path.insert(0, os.getcwd())",
        "{N} = len(sys.path)",
        "sys.path[:] = [p for p in sys.path if p != os.getcwd()]",
        "np.demo8 = {#}; {N} = np.demo8",
    ),
    definitions={
        "MOD": (
            "MOD = 'level = 1\\nheld = [1]\\ndef up(v):\\n    return v + level\\nclass Part:\\n    size = 1\\n"
            "    def __init__(self, data):\\n        self.data, self.n = data, level\\n'",
            "MOD = 'level = 1\\nheld = []\\ndef up(v, k=1):\\n    held.append(v)\\n    return v * k\\nclass "
            "Part(list):\\n    size = {#}\\n'",
        )
    },
)

ENVIRONMENT = Theme(
    begin=("os.environ['DEMO1'] = '{#}'",),
    statements=(
        "os.environ['DEMO1'] = str({n})",
        "os.environ['DEMO1'] = '{#}'",
        "{T} = os.environ.get('DEMO1', 'none')",
        "{N} = int(os.environ['DEMO1'])",
        "os.environ.pop('DEMO1', None)",
        "del os.environ['DEMO1']",
        "{N} = 'DEMO1' in os.environ",
        "{T} = os.getenv('DEMO2', '{#}')",
        "{L} = sorted(k for k in os.environ if k.startswith('DEMO'))",
        "os.environ |= {'DEMO3': '{#}'}",
        "{N} = setting('DEMO1')",
        "os.putenv('DEMO4', '{#}')",
        "{T} = subprocess.run('echo $DEMO1', shell=True, capture_output=True, text=True).stdout",
        "os.makedirs('deep', exist_ok=True); os.chdir('deep')",
        "{T} = os.path.basename(os.getcwd())[:4] == 'deep'",
        "os.chdir('..') if os.path.basename(os.getcwd()) == 'deep' else None",
        "v8.set({#})",
        "v8 = contextvars.ContextVar('v8', default={#})",
        "{N} = v8.get()",
        "v7 = v8.set({#})",
        "v8.reset(v7)",
        "c8 = contextvars.copy_context()",
        "{N} = c8.run(v8.get)",
        "c8.run(v8.set, {#})",
        "{N} = c8[v8]",
        "h8 = threading.Thread(target={l}.append, args=({#},)); h8.start(); h8.join()",
        "h8 = threading.Thread(target=lambda: {l}.append(n0)); h8.start(); h8.join()",
        "h8.join()",
        "h7 = [threading.Thread(target=worker, args=(x,)) for x in range(3)]\nfor x in h7: x.start()\n"
        "for x in h7: x.join()",
        "{L} = sorted(done8)",
        "done8.clear()",
        "with ThreadPoolExecutor(2) as h6: {L} = list(h6.map(lambda v: v + {#}, {l}))",
        "with ThreadPoolExecutor(2) as h6: h5 = [h6.submit(worker, x) for x in range(2)]",
        "{L} = [x.result() for x in h5]",
        "hl8 = threading.local(); hl8.n = {#}",
        "{N} = hl8.n",
        "he8 = threading.Event(); he8.set()",
        "{N} = he8.is_set()",
        "he8.clear()",
        "with lock8:\n    {*}",
        "{N} = lock8.acquire(False); lock8.release()",
        "hq8 = queue.Queue(); hq8.put({l}); hq8.put({#})",
        "{L} = hq8.get(block=False)",
        "{N} = hq8.qsize()",
        "ht8 = threading.Timer(0, {l}.append, [{#}]); ht8.start(); ht8.join()",
        "sys.stdout.write('x{#}')",
        "log8.warning('w{#} %s', {n})",
        "log8.setLevel({#} * 10)",
        "{N} = log8.level",
        "log8.addHandler(Keeps())",
        "{L} = list(Keeps.kept)",
        "sys.setswitchinterval(0.005 + {#})",
        "time.sleep(0)",
        "signal8 = {l}; atexit.register(signal8.append, {#})",
        "locale8 = sys.getrecursionlimit(); {N} = locale8",
        "gc.collect(); {N} = {#}",
        "sys.displayhook8 = {#}",
    ),
    definitions={
        "setting": (
            "def setting(name):\n    return int(os.environ.get(name, {#}))",
            "def setting(name, k={#}):\n    os.environ.setdefault(name, str(k))\n    return len(os.environ[name])",
        ),
        "worker": (
            "def worker(v):\n    done8.append(v + {#})\n    return v",
            "def worker(v):\n    with lock8:\n        {l}.append({#})\n    return v * {#}",
        ),
        "done8": ("done8 = []",),
        "lock8": ("lock8 = threading.Lock()", "lock8 = threading.RLock()"),
        "Keeps": (
            "class Keeps(logging.Handler):\n    kept = []\n    def emit(self, record):\n"
            "        self.kept.append(record.getMessage())",
        ),
        "log8": ("log8 = logging.getLogger('demo'); log8.propagate = False; log8.handlers.clear()",),
    },
)

THEMES = {"files": FILES, "modules": MODULES, "environment": ENVIRONMENT}
