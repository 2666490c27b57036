"""Names of dialects as people log them, and a guess from the text when none is given."""

from __future__ import annotations

import re

from stef.values import fold

# What logs say → what sqlglot calls it. Names that sqlglot knows map to themselves in `canonical`.
_ALIASES = {
    "ansi": "", "aurora": "postgres", "azure sql": "tsql", "azuresql": "tsql", "big query": "bigquery",
    "ch": "clickhouse", "click house": "clickhouse", "cockroach": "postgres", "cockroachdb": "postgres",
    "dbsql": "databricks",
    "duck db": "duckdb", "generic": "", "googlesql": "bigquery", "greenplum": "postgres", "maria db": "mysql",
    "mariadb": "mysql", "ms sql": "tsql", "ms sql server": "tsql", "microsoft sql server": "tsql", "mssql": "tsql",
    "mssql server": "tsql", "my sql": "mysql", "oracledb": "oracle", "pg": "postgres", "pgsql": "postgres",
    "postgre": "postgres", "postgresql": "postgres", "postgressql": "postgres", "presto db": "presto",
    "prestodb": "presto", "pyspark": "spark", "snow flake": "snowflake", "snowflake sql": "snowflake",
    "spark sql": "spark", "sparksql": "spark", "sql": "", "sql server": "tsql", "sqlite3": "sqlite",
    "sqlserver": "tsql", "standard sql": "", "starburst": "trino", "synapse": "tsql", "t-sql": "tsql", "t sql": "tsql",
    "timescale": "postgres", "timescaledb": "postgres", "transact-sql": "tsql", "trinodb": "trino",
}  # fmt: skip
_KNOWN = frozenset({
    "athena", "bigquery", "clickhouse", "databricks", "doris", "dremio", "drill", "druid", "duckdb", "dune", "exasol",
    "fabric", "hive", "materialize", "mysql", "oracle", "postgres", "presto", "prql", "redshift", "risingwave",
    "singlestore", "snowflake", "solr", "spark", "spark2", "sqlite", "starrocks", "tableau", "teradata", "trino",
    "tsql",
})  # fmt: skip
# Marks that only one family of dialects has; the first that is found decides.
_MARKS = tuple(
    (re.compile(mark, re.IGNORECASE | re.VERBOSE), dialect)
    for mark, dialect in (
        (r"\b(?:countIf|toStartOf\w+|toYYYYMM)\s*\( | \bPREWHERE\b", "clickhouse"),
        (r"\b(?:ROWNUM|SYSDATE)\b | \bNVL2?\s*\( | \bFROM\s+DUAL\b", "oracle"),
        (
            r"""\bSELECT\s+(?:DISTINCT\s+)?TOP\s*\(?\s*\d | \b(?:GETDATE|ISNULL)\s*\( | \bWITH\s*\(\s*NOLOCK
              | \bFROM\s+\[ | \bDATEADD\s*\(\s*\w+\s*,\s*-?\d+\s*,\s*GETDATE""",
            "tsql",
        ),
        (
            r"""`[\w-]+(?:\.[\w*-]+){1,2}` | \bSAFE_\w+\s*\( | \bCOUNTIF\s*\(
              | \b\w+_TRUNC\s*\([^()]*,\s*(?:MONTH|WEEK|QUARTER|YEAR|DAY)\s*\)""",
            "bigquery",
        ),
        (r"::\s*\w+ | \bDATE_TRUNC\s*\(\s*' | \bINTERVAL\s+'[^']+'", "postgres"),
        (r"\b(?:QUALIFY|ILIKE)\b | \b(?:DATEADD|IFF)\s*\(", "snowflake"),
        (r"\bSTRFTIME\s*\(\s*' | \b(?:IIF|julianday)\s*\(", "sqlite"),
        (r"` | \b(?:DATE_FORMAT|CURDATE|IFNULL)\s*\(", "mysql"),
    )
)


def canonical(name: str | None) -> str | None:
    """Map a logged dialect name to sqlglot's; "" is plain SQL.

    Returns:
        None when no name was given or nobody knows it.
    """
    if not name:
        return None
    word = fold(name).replace("_", " ")
    word = _ALIASES.get(word, word)
    return word if word == "" or word in _KNOWN else None


def guesses(code: str) -> tuple[str, ...]:
    """Dialects to try for a statement of unknown dialect, most likely first, never empty.

    Args:
        code: The statement, contents of strings blanked.
    """
    likely = [dialect for mark, dialect in _MARKS if mark.search(code)]
    return tuple(dict.fromkeys([*likely, "", "postgres", "mysql", "snowflake", "bigquery", "tsql", "duckdb"]))
