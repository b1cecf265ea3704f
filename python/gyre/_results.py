"""Results: plain dicts that a notebook shows as a page and pandas takes as a frame."""

from __future__ import annotations

from typing import Any

from gyre import _html


class Result(dict[str, Any]):
    """A dict with rows."""

    def rows(self) -> list[dict[str, Any]]:
        """The part that is a table, a dict for each row."""
        return [dict(self)]

    def frame(self) -> Any:
        """The rows as a pandas.DataFrame.  Raises ImportError where pandas is not installed."""
        import pandas

        return pandas.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        rows = self.rows()
        names = list(rows[0]) if rows else []
        return _html.page(type(self).__name__, _html.table([[row[n] for n in names] for row in rows], names))


class Explanation(Result):
    """What an encoding does: see Encoding.explain.  frame() has a row for each pair of channels."""

    def rows(self) -> list[dict[str, Any]]:
        if "inv_freq" in self:
            columns = zip(self["inv_freq"], self["wavelength"], strict=True)
            return [{"pair": i, "inv_freq": f, "wavelength": w} for i, (f, w) in enumerate(columns)]
        if "slopes" in self:
            return [{"head": i, "slope": s} for i, s in enumerate(self["slopes"])]
        return [{"field": k, "value": v} for k, v in self["config"].items()]

    def _figure(self) -> str:
        rows = self.rows()
        if "wavelength" in self:
            trained = self["trained_length"]
            line = _html.Line("wavelength", [row["pair"] for row in rows], [row["wavelength"] for row in rows])
            return _html.figure(
                [line], "pair", "positions a turn", (trained, f"trained length {trained}") if trained else None
            )
        if "slopes" in self:
            line = _html.Line("slope", [row["head"] for row in rows], [row["slope"] for row in rows])
            return _html.figure([line], "head", "slope")
        return ""

    def _repr_html_(self) -> str:
        skipped = ("inv_freq", "wavelength", "fields", "config", "warnings", "slopes")
        facts = _html.table([(k, v) for k, v in self.items() if k not in skipped and v not in (None, {}, [], 0)])
        fields = self.get("fields") or []
        keys = ("name", "value", "from", "key", "line", "why")
        read = _html.table([[field[k] for k in keys] for field in fields], keys) if fields else ""
        warnings = _html.table([(w["text"], w["key"]) for w in self.get("warnings") or []], ("warning", "key"))
        return _html.page(f"{self['kind']}", facts, self._figure(), read, warnings if self.get("warnings") else "")


class Difference(Result):
    """Where two readings differ: see gyre.diff.  frame() has a row for each group of layers."""

    def __bool__(self) -> bool:
        """True where they differ."""
        return not self["same"]

    def rows(self) -> list[dict[str, Any]]:
        plain = (int, float, str, bool, type(None))
        return [
            {"name": group["name"]["a"], **{k: v for k, v in group.items() if isinstance(v, plain)}}
            for group in self.get("groups", [])
        ]

    def _repr_html_(self) -> str:
        fields = [
            (group["name"]["a"], f["name"], (f["a"] or {}).get("value"), (f["b"] or {}).get("value"))
            for group in self.get("groups", [])
            for f in group.get("fields", [])
        ]
        labels = [str(self[side].get("label") or side) for side in ("a", "b")]
        lines = [
            _html.Line(labels[i], list(range(len(wavelength))), wavelength)
            for i, wavelength in enumerate((self.get("wavelength_a") or [], self.get("wavelength_b") or []))
        ]
        drawn = _html.figure(lines, "pair", "positions a turn") if all(line.x for line in lines) else ""
        read = _html.table(fields, ("layers", "field", *labels)) if fields else ""
        return _html.page(str(self["verdict"]), drawn, read)


class TableAudit(Result):
    """What a table of angles is: see gyre.audit_cache.  frame() has a row for each group of layers of each profile."""

    def rows(self) -> list[dict[str, Any]]:
        return [dict(match) for match in self["matches"]]

    def _repr_html_(self) -> str:
        keys = ("profile", "group", "same", "precision", "first_position", "first_pair", "largest_error")
        return _html.page(str(self["verdict"]), _html.table([[row[k] for k in keys] for row in self.rows()], keys))


class Extensions(Result):
    """Ways to a longer context: see gyre.extend.  frame() has a row for each method."""

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for method in self["methods"]:
            row = {k: v for k, v in method.items() if not isinstance(v, dict)}
            row.update(method.get("pairs") or {})
            row.update({name: reader["says"] for name, reader in (method.get("readers") or {}).items()})
            rows.append(row)
        return rows


class Measurement(Result):
    """Perplexities: see Model.perplexity.  frame() has a row for each text, method and context."""

    def rows(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self["results"]]

    def _repr_html_(self) -> str:
        keys = ("method", "context", "perplexity", "perplexity_interval", "windows")
        return _html.page(str(self.get("model", "")), _html.table([[r[k] for k in keys] for r in self["results"]], keys))
