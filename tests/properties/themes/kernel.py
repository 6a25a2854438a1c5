"""What IPython adds to Python: its magics, its history, its displays; and being interrupted."""

from __future__ import annotations

from tests.properties.themes.theme import Theme

HISTORY = Theme(
    (
        "{n} + {#}",
        "{l}",
        "[{#}, {l}]",
        "{d};",
        "{N} = _",
        "{L} = _",
        "_",
        "__",
        "{V} = __",
        "{V} = ___",
        "{V} = _2",
        "{V} = _3",
        "{V} = Out[2]",
        "{V} = Out.get({#}, 0)",
        "{N} = len(Out)",
        "print(sorted(Out)[-1:])",
        "{N} = len(In)",
        "_.append({#}) if _ is {l} else None",
        "{L} = _.copy() if isinstance(_, list) else []",
        "_3.append({#}) if _3 is {l} else None",
        "print(_)",
        "{N} = Out[max(Out)] if Out else {#}",
        "_ = {#}",
        "_ = {l}",
        "del _",
        "*u8, {T} = _i.split()",  # no number in it, which an edit makes another: the cells begin differently
        "*u8, {T} = _ih[-2].split()",
        "(_, {#})",
        "{l} if {n} > {#} else None",
        "{l}.append({#}); {l}",
        "None",
    )
)

MAGICS = Theme(
    (
        "%time {N} = {#}",
        "%time {l}.append({#})",
        "{N} = %time {#} + {n}",
        "%time {g}({#})",
        "%timeit -n1 -r1 {l}.append({#})",
        "%%time\n{L} = [{#}, {n}]\n{l}",
        "%%time\n{N} = {#}\nfor n0 in range(3):\n    {l}.append(n0)",
        "%%capture v8\nprint({n})\n{L} = [{#}]",
        "%%capture v8\nfor n0 in range({#}):\n    print(n0)\n    {l}.append(n0)",
        "{T} = v8.stdout",
        "v8.show()",
        "%run script.py",
        "%run -i script.py",
        "%%writefile script.py\n{N} = {#}\nlisted = [{#}]\ndef scripted(v):\n    return v + {#}",
        "_ = open('script.py', 'w').write('{N} = {#}\\nlisted = [{#}]\\ndef scripted(v):\\n    return v + {#}')",
        "{L} = listed",
        "listed.append({#})",
        "{N} = scripted({#})",
        "%precision {#}",
        "{n} / 7",
        "%pwd;",
        "%config InlineBackend.rc",
        "%env DEMO1={#}",
        "{T} = %env DEMO1",
        "%set_env DEMO1 {#}",
        "%reset_selective -f ^{n}$",
        "%xdel {l}",
        "%who_ls int",
        "{L} = %who_ls list",
        "!echo {#}",
        "{L} = !echo {#}",
        "%%bash\necho {#}",
        "%%python\nprint({#})",
        "{n}?",
        "%alias_magic t8 time",
        "%%t8\n{N} = {#}",
        "get_ipython().run_line_magic('time', '{N} = {#}')",
        "get_ipython().run_cell('{N} = {#}').success",
        "get_ipython().ev('{n} + {#}')",
        "get_ipython().push({'{n}': {#}})",
        "{N} = get_ipython().user_ns['{n}']",
        "get_ipython().user_ns['n0'] = {#}",
        "h8 = display({n}, display_id='h8')",
        "h8.update({n})",
        "h8.update({l})",
        "h8.display({#})",
        "h8 = display(display_id=True); h8.update({#})",
        "display({l}, {n})",
        "display(HTML('<b>{#}</b>'))",
        "Markdown('**{#}**')",
        "clear_output()",
        "print({n}); clear_output(wait=True); print({#})",
        "for n0 in range(3):\n    clear_output(wait=True)\n    print(n0, {n})",
        "for n0 in range(3):\n    display(n0)\n    {l}.append(n0)",
        "Shown({#})",
        "display(Shown({n}))",
        "{V} = Shown({#}); {v}",
        "{M} = [Shown({#}), {l}]; {m}",
    ),
    {
        "Shown": (
            "class Shown:\n    asked = 0\n    def __init__(self, n):\n        self.n = n\n    def __repr__(self):\n"
            "        return f'Shown({self.n})'\n"
            "    def _repr_html_(self):\n        return f'<i>{self.n}</i>'",
            "class Shown:\n    asked = {#}\n    def __init__(self, n):\n        self.n = n\n"
            "    def __repr__(self):\n        Shown.asked += 1\n"
            "        return f'Shown({self.n}, {Shown.asked})'",
            "class Shown:\n    def __init__(self, n):\n        self.n = n\n    def _ipython_display_(self):\n"
            "        {l}.append(self.n)\n        print('shown', self.n)",
        )
    },
)

INTERRUPTS = Theme(
    (
        "raise KeyboardInterrupt",
        "for n0 in range(5):\n    {*}\n    if n0 == {#}: raise KeyboardInterrupt",
        "for n0 in range(5):\n    {l}.append(n0)\n    if len({l}) > 6: raise RuntimeError({#})",
        "for n0 in range(5):\n    try:\n        {*}\n        if n0 == {#}: raise KeyboardInterrupt\n"
        "    except KeyboardInterrupt:\n        {l}.append(n0)\n        break",
        "try:\n    for n0 in range(4):\n        {*}\n        if n0 == {#}: raise KeyboardInterrupt\nfinally:\n"
        "    {l}.append({#})",
        "while True:\n    {l}.append({#})\n    if len({l}) > 9: raise KeyboardInterrupt",
        "while len({l}) < 9:\n    {l}.append({#})\n    {*}",
        "for n0 in range(3):\n    for n1 in range(3):\n        {*}\n        if n0 * n1 == {#}: raise StopIteration",
        "with contextlib.suppress(KeyboardInterrupt):\n    for n0 in range(4):\n        {*}\n"
        "        if n0 == {#}: raise KeyboardInterrupt",
        "os.kill(os.getpid(), __import__('signal').SIGINT)",
        "exit_ = {#}; assert {n} > {#}",
        "sys.exit({#})",
    ),
    # Caught by what is around it, the file would be one that a statement has made itself: that is no other input.
    alone=(
        "if not os.path.exists('p0.txt'):\n    open('p0.txt', 'w').close()\n    raise KeyboardInterrupt",
        "for n0 in range(4):\n    {l}.append(n0)\n    if n0 == 2 and not os.path.exists('p0.txt'):\n"
        "        open('p0.txt', 'w').close()\n        raise KeyboardInterrupt",
    ),
)

THEMES = {"history": HISTORY, "magics": MAGICS, "interrupts": INTERRUPTS}
