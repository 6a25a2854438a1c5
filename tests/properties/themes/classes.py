"""Classes that do something of their own: when they are made, asked, set, compared, inherited from."""

from __future__ import annotations

from tests.properties.themes.theme import Theme

INHERITANCE = Theme(
    (
        "{O} = Base({l})",
        "{O} = Kid({l})",
        "{O} = Grandkid({l}, {#})",
        "{M} = [Kid({l}), Grandkid({l})]",
        "{o}.add({#})",
        "{N} = {o}.total()",
        "{T} = repr({o})",
        "{o}",
        "print({o}, [{o}])",
        "{N} = len(Base.registry)",
        "{L} = sorted(Base.registry)",
        "Base.registry['x'] = Kid",
        "{O} = Base.registry['Kid']({l})",
        "{O} = Base.make({#})",
        "{O} = Kid.make({#})",
        "class Late(Kid, tag={#}):\n    n = {#}",
        "{O} = Late({l})",
        "Kid.step = {#}",
        "Base.step += 1",
        "{N} = Kid.step + Grandkid.step",
        "Base.alive.append({o})",
        "{N} = len(Base.alive)",
        "Base.alive.clear()",
        "for x in Base.alive: x.add({#})",
        "{N} = isinstance({o}, Base) + isinstance({o}, Kid)",
        "{L} = [x.__name__ for x in type({o}).__mro__]",
        "{L} = sorted(x.__name__ for x in Base.__subclasses__())",
        "{D} = {type({o}): {o}}",
        "{O} = type({o})({l})",
        "Kid.total = lambda self: super(Kid, self).total() + {#}",
        "{G} = super(Kid, {o}).total",
        "{G} = Kid.make",
        "{O} = {g}({#})",
        "{N} = Base.count",
        "{N} = {o}.count",
    ),
    {
        "Base": (
            "class Base:\n    registry = {}\n    alive = []\n    step = {#}\n    count = 0\n"
            "    def __init_subclass__(cls, tag=0, **more):\n        super().__init_subclass__(**more)\n"
            "        cls.tag = tag\n"
            "        Base.registry[cls.__name__] = cls\n    def __init__(self, data):\n"
            "        self.data, self.n = data, self.step\n"
            "        Base.count += 1\n    @classmethod\n    def make(cls, v):\n        return cls([v, cls.step])\n"
            "    def add(self, v):\n        self.data.append(v)\n        return self\n    def total(self):\n"
            "        return len(self.data) + self.step\n    def __repr__(self):\n"
            "        return f'{type(self).__name__}({self.data})'",
            "class Base:\n    registry = {}\n    alive = []\n    step = 1\n    count = {#}\n"
            "    def __init_subclass__(cls, tag={#}):\n        cls.registry = {**cls.registry, cls.__name__: cls}\n"
            "    def __init__(self, data):\n        self.data, self.n = data, {n}\n        self.alive.append(self)\n"
            "    @classmethod\n    def make(cls, v):\n        made = cls.__new__(cls)\n"
            "        made.data, made.n = [v], {#}\n"
            "        return made\n    def add(self, v):\n        self.n += v * self.step\n    def total(self):\n"
            "        return self.n",
        ),
        "Kid": (
            "class Kid(Base, tag={#}):\n    def add(self, v):\n        super().add(v + {#})\n        return self",
            "class Kid(Base):\n    step = {#}\n    def __init__(self, data):\n        super().__init__(data)\n"
            "        self.extra = [{#}]\n"
            "    def total(self):\n        return super().total() + len(self.extra)",
            "class Mixin:\n    def mixed(self):\n        return {#}\nclass Kid(Mixin, Base):\n    def total(self):\n"
            "        return self.mixed() + Base.total(self)",
        ),
        "Grandkid": (
            "class Grandkid(Kid):\n    def __init__(self, data, more={#}):\n        super().__init__(list(data))\n"
            "        self.more = more",
            "class Side(Base):\n    def total(self):\n        return super().total() * {#}\n"
            "class Grandkid(Kid, Side):\n"
            "    def __init__(self, *data):\n        super().__init__(data[0])\n        self.rest = data[1:]",
        ),
    },
)

ACCESS = Theme(
    (
        "o8 = Strict({#})",
        "o8.n = {#}",
        "{N} = o8.n",
        "o8.data = {l}",
        "o8.data.append({#})",
        "{L} = o8.data",
        "o8.other = {#}",
        "{L} = Strict.log[-3:]",
        "{N} = len(Strict.log)",
        "o7 = Loose({l})",
        "{N} = o7.anything",
        "{N} = o7['key']",
        "o7['key'] = {l}",
        "del o7['key']",
        "{N} = len(o7)",
        "{L} = [x for x in o7]",
        "{N} = {#} in o7",
        "o7.n = {#}",
        "{O} = o7",
        "o8.peer = o7",
        "o7.peer = o8",
        "o7.peer.n = {#}",
        "v8 = Described({#})",
        "v8.size = {#}",
        "{N} = v8.size + v8.unit",
        "v8.unit = {#}",
        "{L} = v8.seen",
        "del v8.size",
        "v7 = Described({n}); v7.size = {#}",
        "{N} = v7.size - v8.size",
        "v8.__dict__['size'] = {#}",
        "{N} = Described.size.asked",
        "{N} = o7 == v8",
        "o7 += {#}",
        "{V} = o7 + {l}",
        "{N} = -o7",
        "{N} = int(o7)",
        "{N} = o7({#})",
        "with o7:\n    {*}",
        "{N} = bool(o7)",
        "{N} = o7 @ {#}",
        "print(f'{o7:>{#}}', o7)",
    ),
    {
        "Strict": (
            "class Strict:\n    log = []\n    def __init__(self, n):\n        self.n = n\n        self.data = []\n"
            "    def __setattr__(self, name, value):\n        Strict.log.append(name)\n"
            "        object.__setattr__(self, name, value)\n    def __getattribute__(self, name):\n"
            "        return object.__getattribute__(self, name)",
            "class Strict:\n    __slots__ = ('n', 'data', 'peer', '__weakref__')\n    log = ()\n"
            "    def __init__(self, n):\n"
            "        self.n, self.data = n, [{#}]",
            "class Strict:\n    log = []\n    def __init__(self, n):\n"
            "        object.__setattr__(self, 'held', {'n': n, 'data': []})\n"
            "    def __getattr__(self, name):\n        if name.startswith('__') or name == 'held':\n"
            "            raise AttributeError(name)\n        return self.held[name]\n"
            "    def __setattr__(self, name, value):\n"
            "        self.held[name] = value\n        self.log.append({#})",
        ),
        "Loose": (
            "class Loose:\n    def __init__(self, data):\n        self.data, self.items, self.n = data, {}, {#}\n"
            "    def __getattr__(self, name):\n        if name in ('anything', 'key'):\n            self.n += 1\n"
            "            return self.n\n"
            "        raise AttributeError(name)\n    def __getitem__(self, k):\n        if isinstance(k, int):\n"
            "            return self.data[k]\n"
            "        return self.items.get(k, {#})\n    def __setitem__(self, k, v):\n        self.items[k] = v\n"
            "    def __delitem__(self, k):\n"
            "        del self.items[k]\n    def __len__(self):\n        return len(self.data)\n"
            "    def __contains__(self, v):\n"
            "        return v in self.data\n    def __iadd__(self, v):\n        self.data.append(v)\n"
            "        return self\n"
            "    def __call__(self, v):\n        return v * {#}\n    def __format__(self, spec):\n"
            "        return format(self.n, spec)\n"
            "    def __matmul__(self, v):\n        return self.n @ v if isinstance(v, list) else self.n * v",
            "class Loose(dict):\n    def __init__(self, data):\n        super().__init__(key=data)\n"
            "        self.data = data\n"
            "    def __missing__(self, k):\n        return {#}\n    def __getattr__(self, name):\n"
            "        if name.startswith('__'):\n"
            "            raise AttributeError(name)\n        return self[name]\n    def __enter__(self):\n"
            "        self['in'] = {#}\n"
            "    def __exit__(self, *_):\n        return True\n    def __neg__(self):\n        return len(self)",
            "class Loose(list):\n    n = {#}\n    def __init__(self, data):\n        super().__init__(data)\n"
            "        self.data = self\n"
            "        self.items = {}\n    def __setitem__(self, k, v):\n        self.items[k] = v\n"
            "    def __add__(self, other):\n"
            "        return Loose([*self, *other])\n    def __int__(self):\n        return len(self) + {#}\n"
            "    def __bool__(self):\n"
            "        return False",
        ),
        "Described": (
            "class Field:\n    asked = 0\n    def __set_name__(self, owner, name):\n        self.name = name\n"
            "    def __get__(self, obj, kind=None):\n        if obj is None:\n            return self\n"
            "        self.asked += 1\n"
            "        return obj.__dict__.get('_' + self.name, {#})\n    def __set__(self, obj, v):\n"
            "        obj.__dict__['_' + self.name] = v * {#}\n"
            "    def __delete__(self, obj):\n        obj.__dict__.pop('_' + self.name)\n"
            "class Described:\n    size = Field()\n    unit = Field()\n    def __init__(self, n):\n"
            "        self.seen = [n]",
            "class Described:\n    def __init__(self, n):\n        self._size, self.seen, self.unit = n, [], {#}\n"
            "    @property\n"
            "    def size(self):\n        self.seen.append(self._size)\n        return self._size\n    @size.setter\n"
            "    def size(self, v):\n        self._size = v + {#}\n    @size.deleter\n    def size(self):\n"
            "        self._size = 0",
        ),
    },
)

EQUALITY = Theme(
    (
        "o8, o7 = Same({#}), Same({#})",
        "{D} = {o8: {l}, o7: 2}",
        "{d}[Same({#})] = {n}",
        "{S} = {o8, o7, Same({#})}",
        "{N} = len({s})",
        "{N} = {l}.count(o8)",
        "{l}.append(o8)",
        "{M} = [o8, o7, o8]",
        "{m}.remove(Same({#}))",
        "{N} = {m}.index(o7)",
        "{N} = o8 == o7",
        "{N} = o8 is o7",
        "o7 = o8",
        "o7 = copy.copy(o8)",
        "o7 = copy.deepcopy(o8)",
        "o8.n = {#}",
        "o8.data.append({#})",
        "o7.data = o8.data",
        "{N} = {d}.get(o7, {#})",
        "{N} = o8 in {d}",
        "{L} = sorted(x.n for x in {s} if isinstance(x, Same))",
        "{Q} = collections.Counter([o8, o7, o8])",
        "{N} = {q}[o8]",
        "q8 = Same.unique({#})",
        "{N} = Same.unique({#}) is q8",
        "q8.data.append({#})",
        "q8 = Same.unique({n})",
        "v8 = Meta.instances",
        "{N} = len(Meta.instances)",
        "{N} = Meta.instances['Same']",
        "Same.n += 1",
        "Same.label",
        "{N} = Same['x']",
        "{N} = {#} in Same",
        "{V} = Same + {#}",
    ),
    {
        "Meta": (
            "class Meta(type):\n    instances = {}\n    def __new__(meta, name, bases, body):\n"
            "        body['label'] = name * {#}\n"
            "        return super().__new__(meta, name, bases, body)\n    def __call__(cls, *args):\n"
            "        made = super().__call__(*args)\n"
            "        Meta.instances[cls.__name__] = Meta.instances.get(cls.__name__, 0) + 1\n"
            "        return made\n    def __getitem__(cls, k):\n        return k * {#}\n    def __contains__(cls, k):\n"
            "        return k > {#}",
            "class Meta(type):\n    instances = {'Same': {#}}\n    def __prepare__(name, bases):\n"
            "        return {'label': {#}}\n"
            "    def __init__(cls, name, bases, body):\n        super().__init__(name, bases, body)\n"
            "        cls.n = {#}\n"
            "    def __add__(cls, v):\n        return [cls, v]",
        ),
        "Same": (
            "class Same(metaclass=Meta):\n    n = 0\n    made = {}\n    def __init__(self, n):\n"
            "        self.n, self.data = n, [n]\n"
            "    def __eq__(self, other):\n        return isinstance(other, Same) and self.n == other.n\n"
            "    def __hash__(self):\n"
            "        return hash(self.n)\n    @classmethod\n    def unique(cls, n):\n"
            "        return cls.made.setdefault(n, cls(n))",
            "class Same(metaclass=Meta):\n    made = weakref.WeakValueDictionary()\n    def __init__(self, n):\n"
            "        self.n, self.data = n % 3, []\n    def __eq__(self, other):\n"
            "        return self.n == getattr(other, 'n', None)\n"
            "    def __hash__(self):\n        return {#}\n    @staticmethod\n    def unique(n):\n"
            "        found = Same.made.get(n)\n"
            "        if found is None:\n            Same.made[n] = found = Same(n)\n        return found",
            "class Same(metaclass=Meta):\n    only = None\n    def __new__(cls, n):\n        if cls.only is None:\n"
            "            cls.only = super().__new__(cls)\n        return cls.only\n    def __init__(self, n):\n"
            "        self.n, self.data = n, [{#}]\n    unique = classmethod(lambda cls, n: cls(n))",
        ),
    },
)

RECORDS = Theme(
    (
        "{O} = Row({#})",
        "{O} = Row({n}, {l})",
        "{O} = Row({#}); {o}.data.append({#})",
        "{O} = dataclasses.replace({o}, n={#})",
        "{D} = dataclasses.asdict({o})",
        "{L} = [x.name for x in dataclasses.fields(Row)]",
        "{N} = Row({#}) == {o}",
        "{S} = {Row({#}), Row({#})}",
        "{M} = sorted([Row({#}), Row({#})])",
        "{o}.n += {#}",
        "{o}.meta['k'] = {l}",
        "{o}.data += [{#}]",
        "{T} = repr({o})",
        "{o}",
        "{o}.total()",
        "{N} = {o}.total()",
        "object.__setattr__({o}, 'n', {#})",
        "{O} = Named({#}, {l})",
        "{O} = {o}._replace(n={#})",
        "{N}, *_ = {o}",
        "{D} = {o}._asdict()",
        "Named.limit = {#}",
        "{N} = Named.limit",
        "{N} = {o}.over",
        "{V} = Shade.DARK",
        "{V} = Shade({#})",
        "{V} = list(Shade)",
        "{N} = Shade.DARK.weight",
        "Shade.DARK.weight = {#}",
        "Shade.DARK.used.append({#})",
        "{L} = Shade.DARK.used",
        "{V} = Shade['LIGHT']",
        "{N} = {v} is Shade.DARK",
        "{D} = {Shade.DARK: {l}, Shade.LIGHT: {#}}",
        "{d}[Shade.DARK].append({#})",
        "{O} = Row(Shade.DARK, [Shade.LIGHT])",
        "{V} = Shade.DARK.darker({#})",
        "match {v}:\n    case Shade.DARK:\n        {*}\n    case _:\n        {N} = {#}",
        "match {o}:\n    case Row(n=n8, data=[x, *_]):\n        {N} = n8\n    case Named(n8, l8):\n"
        "        l8.append({#})",
        "{V} = Typed(a={#}, b={l})",
        "{v}['b'].append({#})",
    ),
    {
        "Shade": (
            "class Shade(enum.Enum):\n    DARK = {#}\n    LIGHT = 'x{#}'\n    def __init__(self, *_):\n"
            "        self.weight, self.used = {#}, []\n    def darker(self, v):\n        return v + self.weight",
            "class Shade(enum.IntEnum):\n    DARK = 1\n    LIGHT = 2\n    @property\n    def used(self):\n"
            "        return {l}\n"
            "    def darker(self, v):\n        return Shade.DARK if v else self",
            "Shade = enum.Enum('Shade', 'DARK LIGHT')\nShade.DARK.used = [{#}]\nShade.DARK.weight = {#}",
        ),
        "Row": (
            "@dataclasses.dataclass(order=True)\nclass Row:\n    n: int = {#}\n"
            "    data: list = dataclasses.field(default_factory=list)\n"
            "    meta: dict = dataclasses.field(default_factory=dict, compare=False, repr=False)\n"
            "    def total(self):\n"
            "        return self.n + len(self.data)",
            "@dataclasses.dataclass(slots=True)\nclass Row:\n    n: int\n"
            "    data: list = dataclasses.field(default_factory=lambda: [{#}])\n"
            "    made: typing.ClassVar[int] = {#}\n    def __post_init__(self):\n"
            "        self.data = [*self.data, self.made]\n"
            "    def total(self):\n        return self.n * {n}",
            "@dataclasses.dataclass(frozen=True)\nclass Row:\n    n: int\n"
            "    data: list = dataclasses.field(default_factory=list, hash=False)\n"
            "    k: dataclasses.InitVar[int] = {#}\n    def __post_init__(self, k):\n        self.data.append(k)\n"
            "    @functools.cached_property\n"
            "    def late(self):\n        return self.n + {#}\n    def total(self):\n        return self.late",
        ),
        "Named": (
            "class Named(typing.NamedTuple):\n    n: int\n    data: list\n    limit = {#}\n    @property\n"
            "    def over(self):\n"
            "        return self.n > {#}",
            "class Named(collections.namedtuple('Named', 'n data', defaults=[None])):\n    limit = {#}\n"
            "    def over(self):\n"
            "        return self.limit",
        ),
        "Typed": ("class Typed(typing.TypedDict, total=False):\n    a: int\n    b: list",),
    },
)

THEMES = {"inheritance": INHERITANCE, "access": ACCESS, "equality": EQUALITY, "records": RECORDS}
