# SPDX-License-Identifier: Apache-2.0
"""JSON in parameters of requests."""

import json
from typing import Any


def read_json(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON document whose texts can all be stored; else ValueError.

    JSON can name half of a surrogate pair, which no UTF-8 text has and no database takes.

    >>> read_json('{"a": "x"}')
    {'a': 'x'}
    """
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("too deep") from error
    return value
