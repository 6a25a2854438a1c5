"""What the standard library has to hold values in, and to copy and count them."""

from __future__ import annotations

from tests.properties.themes.theme import Theme

COLLECTIONS = Theme(
    (
        "q8 = collections.deque({l}, maxlen={#} + 2)",
        "q8.append({n}); q8.rotate(1)",
        "q8.extendleft({l}[:3])",
        "{N} = q8.pop()",
        "q8[0] = {l}",
        "for x in list(q8):\n    {*}",
        "l8 = []; [heapq.heappush(l8, x) for x in {l}]",
        "heapq.heapify({l})",
        "{N} = heapq.heappop(l8)",
        "heapq.heappush(l8, {#})",
        "{L} = heapq.nsmallest(2, {l})",
        "{L} = list(heapq.merge(sorted({l}), l8))",
        "bisect.insort({l}, {#})",
        "{N} = bisect.bisect({l}, {#})",
        "d8 = collections.Counter({l})",
        "d8[{n}] += {#}",
        "d8 -= collections.Counter({l})",
        "{M} = d8.most_common(2)",
        "{L} = sorted(d8.elements())",
        "d7 = collections.OrderedDict(a={l}, b={#}); d7.move_to_end('a')",
        "{N} = d7.popitem(last=False)[0] == 'a'",
        "d6 = collections.ChainMap({d}, d7)",
        "d6['z'] = {l}",
        "{N} = len(d6)",
        "d6 = d6.new_child({'n': {#}})",
        "d6.maps[-1]['c'] = {#}",
        "d5 = collections.defaultdict(lambda: [{#}])",
        "d5['k'].append({#})",
        "d5 = collections.defaultdict(list, {d})",
        "{L} = d5['new']",
        "d5.default_factory = set",
        "{T} = str(d5['new'])",
        "q7 = collections.UserList({l}); q7.append({#})",
        "q6 = collections.UserDict({d}); q6['u'] = {l}",
        "q6.data['u'].append({#})",
        "q7.data.append({#})",
        "v8 = types.MappingProxyType({d})",
        "{N} = len(v8)",
        "{L} = v8['b']",
        "v7 = array.array('i', {l})",
        "v7.append({#}); v7.reverse()",
        "v6 = memoryview(v7)",
        "v6[0] = {#}",
        "v5 = bytearray(b'abc'); w8 = memoryview(v5)[1:]",
        "w8[0] = {#} + 60",
        "v5[:1] = b'{#}'",
        "w8.release()",
        "{N} = v5[0]",
        "del w8",
        "{T} = bytes(v5).decode('latin1')",
    )
)

COPIES = Theme(
    (
        "{L} = copy.copy({l})",
        "{M} = copy.deepcopy({m})",
        "{D} = copy.deepcopy({d})",
        "{O} = copy.copy({o})",
        "{O} = copy.deepcopy({o})",
        "{A} = copy.copy({a})",
        "m8 = [{l}, {d}, {a}, {o}]",
        "m7 = copy.copy(m8)",
        "m7 = copy.deepcopy(m8)",
        "m7[0].append({#})",
        "m8[0] += [{#}]",
        "m7[1]['k'] = m8[0]",
        "m8[2][0] = {#}",
        "m7 = pickle.loads(pickle.dumps(m8))",
        "{N} = m7 is m8 or m7[0] is m8[0]",
        "memo8 = {}; m6 = copy.deepcopy(m8, memo8); del memo8",
        "m6[-1].n = {#}",
        "{L} = m8[0]",
        "m8 = [m8, m7, m6]",
        "m8[0][0].append({#})",
        "{D} = {**{d}, 'copy': copy.deepcopy({l})}",
        "{L} = {l}.copy(); {l}.append({#})",
        "d8 = {d}; d8['q'] = d8.copy()",
        "d8['q']['b'] = {l}",
        "c8 = Tree({#}); c8.grow({#})",
        "c8.grow({n})",
        "c7 = copy.deepcopy(c8)",
        "c7 = copy.copy(c8)",
        "c7.kids[0].kids.append(Tree({#}))",
        "c8.kids.append(c7)",
        "{N} = c8.size()",
        "{N} = c7.size()",
        "c6 = c8.kids[-1]",
        "c6.n = {#}; c6.grow({#})",
        "{N} = c6.up is c8",
        "c8.kids.clear()",
        "del c8",
        "c8 = c7",
    ),
    {
        "Tree": (
            "class Tree:\n    def __init__(self, n, up=None):\n        self.n, self.up, self.kids = n, up, []\n"
            "    def grow(self, v):\n"
            "        self.kids.append(Tree(v, self))\n        return self.kids[-1]\n    def size(self, depth=0):\n"
            "        return self.n + (sum(k.size(depth + 1) for k in self.kids) if depth < 4 else {#})",
            "class Tree:\n    def __init__(self, n, up=None):\n        self.n, self.kids = n, []\n"
            "        self._up = weakref.ref(up) if up is not None else None\n    @property\n    def up(self):\n"
            "        return self._up and self._up()\n    def grow(self, v):\n"
            "        self.kids += [Tree(v + {#}, self)]\n"
            "    def size(self):\n        return len(self.kids) + self.n\n    def __deepcopy__(self, memo):\n"
            "        made = Tree(self.n)\n        made.kids = list(self.kids)\n        return made",
        )
    },
)

WEAK = Theme(
    (
        "x8 = Node({#}); x7 = Node({#})",
        "v8 = weakref.ref(x8)",
        "{N} = v8() is x8",
        "{N} = v8() is None",
        "v8().n = {#}",
        "del x8",
        "x8 = x7",
        "x8 = None",
        "d8 = weakref.WeakValueDictionary(a=x8, b=x7)",
        "d8['c'] = Node({#})",
        "{L} = sorted(d8)",
        "{N} = d8['a'].n",
        "d7 = weakref.WeakKeyDictionary({x8: {l}, x7: {#}})",
        "d7[x8].append({#})",
        "{N} = len(d7)",
        "s8 = weakref.WeakSet([x8, x7])",
        "s8.add(Node({#}))",
        "{L} = sorted(x.n for x in s8)",
        "v7 = weakref.proxy(x8)",
        "{N} = v7.n",
        "v7.n = {#}",
        "v6 = weakref.WeakMethod(x8.total)",
        "{N} = v6()()",
        "x8.peers = weakref.WeakSet([x7])",
        "x8.peers.add(x8)",
        "{N} = len(x8.peers)",
        "v5 = weakref.finalize(x7, {l}.append, {#})",
        "v5()",
        "{N} = v5.alive",
        "{N} = len(Node.all)",
        "{L} = sorted(x.n for x in list(Node.all))",
        "x8.peer, x7.peer = weakref.ref(x7), x8",
        "{N} = x8.peer().peer is x8",
        "{M} = [x8, weakref.ref(x8)]",
        "{o}.up = weakref.ref(x8)",
        "l8 = [Node(x) for x in range(3)]; w8 = [weakref.ref(x) for x in l8]",
        "l8.pop()",
        "{L} = [x() is None for x in w8]",
    ),
    {
        "Node": (
            "class Node:\n    all = weakref.WeakSet()\n    def __init__(self, n):\n        self.n = n\n"
            "        Node.all.add(self)\n"
            "    def total(self):\n        return self.n + {#}",
            "class Node:\n    __slots__ = ('n', 'peers', 'peer', '__weakref__')\n    all = []\n"
            "    def __init__(self, n):\n        self.n = n\n"
            "    def total(self):\n        return self.n * {n}",
        )
    },
)

NUMBERS = Theme(
    (
        "decimal.getcontext().prec = {#} + 3",
        "c8 = decimal.Context(prec={#} + 2)",
        "{V} = c8.divide(1, 7)",
        "c8.prec = {#} + 1",
        "decimal.setcontext(c8)",
        "{V} = decimal.Decimal({n}) / 7",
        "with decimal.localcontext(c8) as c9:\n    c9.prec += 1\n    {V} = decimal.Decimal({#}) / 3\ndel c9",
        "{N} = decimal.getcontext().flags[decimal.Inexact]",
        "c8.clear_flags()",
        "decimal.getcontext().traps[decimal.Inexact] = True",
        "{V} = fractions.Fraction({#}, 7) + {n}",
        "{N} = int({v})",
        "{V} = {v} * 2",
        "{N} = round(statistics.mean({l}))",
        "{V} = datetime.datetime(2024, 1, {#} + 1)",
        "{V} = {v} + datetime.timedelta(days={#})",
        "{T} = {v}.isoformat()",
        "{V} = uuid.UUID(int={n})",
        "{V} = complex({n}, {#})",
        "{N} = {n}.bit_length()",
        "{V} = 2 ** 70 + {n}",
        "{V} = float('inf') - {n}",
        "{V} = -0.0",
        "{T} = str({v})",
        "{T} = struct.pack('<if', {n}, {#}).hex()",
        "{V} = re.compile('a{#}')",
        "{N} = bool({v}.match('a{#}'))",
        "{V} = re.match('(a)(b)?', 'ab{#}')",
        "{T} = {v}.group(1)",
        "{T} = string.Template('$a {#}').substitute(a={n})",
        "{T} = textwrap.dedent('  x{#}')",
        "{T} = hashlib.md5(str({l}).encode()).hexdigest()[:6]",
        "{V} = hashlib.md5(b'{#}')",
        "{v}.update(b'{#}')",
        "{T} = {v}.hexdigest()[:4]",
        "{V} = io.StringIO('a{#}')",
        "{v}.write('x{#}')",
        "{T} = {v}.getvalue()",
        "{V} = io.BytesIO(b'ab'); {v}.seek(1)",
        "{T} = {v}.read()",
        "{N} = {v}.tell()",
    )
)

THEMES = {"collections": COLLECTIONS, "copies": COPIES, "weak": WEAK, "numbers": NUMBERS}
