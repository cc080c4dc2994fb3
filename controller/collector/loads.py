# SPDX-License-Identifier: Apache-2.0
"""Memory as compiled loops see it: addresses, and tables of int64 rows at them.

Passing arrays between compiled functions counts references and checks for negative indices, which
costs several times what decoding a report costs. So the loops are given addresses; whoever calls an
entry point holds the arrays meanwhile. Nothing here checks a bound: before a load, its place has
been compared with the end of the datagram.

`u8`, `be16` and `be32` give non-negative numbers; `be64` and `get` give 64 bits as a signed one.
"""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj
from numpy.typing import NDArray

_arrays: Any = arrayobj
_tuples: Any = cgutils
_ir = _tuples.ir
_WORD = _ir.IntType(64)
_Numba = Any
"""Something of the compiler, which has no types of its own."""
_Build = Callable[[_Numba, _Numba, _Numba, _Numba], _Numba]


def _declare(build: _Build, result: _Numba, count: int) -> _Numba:
    """A compiled function of `count` int64 arguments whose instructions `build` gives."""
    arguments = [types.int64] * count

    # numba reads the number of arguments from the signature
    def one(typing: _Numba, a: _Numba) -> _Numba:
        return result(*arguments), build

    def two(typing: _Numba, a: _Numba, b: _Numba) -> _Numba:
        return result(*arguments), build

    def three(typing: _Numba, a: _Numba, b: _Numba, c: _Numba) -> _Numba:
        return result(*arguments), build

    def four(typing: _Numba, a: _Numba, b: _Numba, c: _Numba, d: _Numba) -> _Numba:
        return result(*arguments), build

    def five(typing: _Numba, a: _Numba, b: _Numba, c: _Numba, d: _Numba, e: _Numba) -> _Numba:
        return result(*arguments), build

    def six(
        typing: _Numba, a: _Numba, b: _Numba, c: _Numba, d: _Numba, e: _Numba, f: _Numba
    ) -> _Numba:
        return result(*arguments), build

    def seven(
        typing: _Numba, a: _Numba, b: _Numba, c: _Numba, d: _Numba, e: _Numba, f: _Numba, g: _Numba
    ) -> _Numba:
        return result(*arguments), build

    return intrinsic((one, two, three, four, five, six, seven)[count - 1])


def _pointer(builder: _Numba, address: _Numba, bits: int) -> _Numba:
    return builder.inttoptr(address, _ir.IntType(bits).as_pointer())


def _load(bits: int, *, big_endian: bool) -> _Build:
    def build(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
        value = builder.load(_pointer(builder, arguments[0], bits))
        value.align = 1
        if big_endian and bits > 8:
            value = builder.bswap(value)
        return builder.zext(value, _WORD) if bits < 64 else value

    return build


def _store(bits: int) -> _Build:
    def build(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
        value = arguments[1]
        if bits < 64:
            value = builder.trunc(value, _ir.IntType(bits))
        builder.store(value, _pointer(builder, arguments[0], bits)).align = 1
        return context.get_dummy_value()

    return build


Load = Callable[[int], int]
u8: Load = _declare(_load(8, big_endian=True), types.int64, 1)
be16: Load = _declare(_load(16, big_endian=True), types.int64, 1)
be32: Load = _declare(_load(32, big_endian=True), types.int64, 1)
be64: Load = _declare(_load(64, big_endian=True), types.int64, 1)
"""Fields of the wire at an address."""

get16: Load = _declare(_load(16, big_endian=False), types.int64, 1)
get32: Load = _declare(_load(32, big_endian=False), types.int64, 1)
get64: Load = _declare(_load(64, big_endian=False), types.int64, 1)
"""Fields of records at an address, in the machine's byte order."""

Store = Callable[[int, int], None]
put8: Store = _declare(_store(8), types.void, 2)
put16: Store = _declare(_store(16), types.void, 2)
put32: Store = _declare(_store(32), types.void, 2)
put64: Store = _declare(_store(64), types.void, 2)
"""(address, number): its low bits, in the machine's byte order."""


def _place(builder: _Numba, arguments: _Numba) -> _Numba:
    return builder.gep(_pointer(builder, arguments[0], 64), [arguments[1]])


def _get(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
    return builder.load(_place(builder, arguments))


def _put(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
    builder.store(arguments[2], _place(builder, arguments))
    return context.get_dummy_value()


def _count_up(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
    place = _place(builder, arguments)
    builder.store(builder.add(builder.load(place), _ir.Constant(_WORD, 1)), place)
    return context.get_dummy_value()


get: Callable[[int, int], int] = _declare(_get, types.int64, 2)
"""(row, column): the int64 in a column of the row at an address."""
put: Callable[[int, int, int], None] = _declare(_put, types.void, 3)
"""(row, column, number): write it."""
count_up: Callable[[int, int], None] = _declare(_count_up, types.void, 2)
"""(row, column): add 1 to it."""


def _mix(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
    wide = _ir.IntType(128)
    product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
    high = builder.trunc(builder.lshr(product, _ir.Constant(wide, 64)), _WORD)
    return builder.xor(high, builder.trunc(product, _WORD))


mix: Callable[[int, int], int] = _declare(_mix, types.int64, 2)
"""High half of the 128-bit product xor its low half: each bit depends on all."""


def _prefetch(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
    byte = _ir.IntType(8).as_pointer()
    number = _ir.IntType(32)
    name = "llvm.prefetch.p0i8"
    function = builder.module.globals.get(name)
    if function is None:
        kind = _ir.FunctionType(_ir.VoidType(), [byte, number, number, number])
        function = _ir.Function(builder.module, kind, name)
    constants = [_ir.Constant(number, value) for value in (0, 3, 1)]
    builder.call(function, [builder.inttoptr(arguments[0], byte), *constants])
    return context.get_dummy_value()


prefetch: Callable[[int], None] = _declare(_prefetch, types.void, 1)
"""Ask for the memory at an address that will be read soon."""


def _call(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
    kind = _ir.FunctionType(_WORD, [_WORD] * (len(arguments) - 1))
    function = builder.inttoptr(arguments[0], kind.as_pointer())
    return builder.call(function, arguments[1:])


call3: Callable[[int, int, int, int], int] = _declare(_call, types.int64, 4)
call4: Callable[[int, int, int, int, int], int] = _declare(_call, types.int64, 5)
call5: Callable[[int, int, int, int, int, int], int] = _declare(_call, types.int64, 6)
call6: Callable[[int, int, int, int, int, int, int], int] = _declare(_call, types.int64, 7)
"""(function, arguments...): call a `kernel.Function` by its address."""


def _row_at(context: _Numba, builder: _Numba, signature: _Numba, arguments: _Numba) -> _Numba:
    array = context.make_array(signature.return_type)(context, builder)
    eight = context.get_constant(types.intp, 8)
    _arrays.populate_array(
        array,
        data=builder.inttoptr(arguments[0], array.data.type),
        shape=_tuples.pack_array(builder, [arguments[1]]),
        strides=_tuples.pack_array(builder, [eight]),
        itemsize=eight,
        meminfo=None,
    )
    return array._getvalue()


row_at: Callable[[int, int], Any] = _declare(_row_at, types.Array(types.int64, 1, "C"), 2)
"""(address, columns): the int64 row there as an array that counts no references."""


def address_of(array: NDArray[Any]) -> int:
    """Where the elements of a contiguous array lie; the caller keeps it alive."""
    assert array.flags.c_contiguous
    return int(array.ctypes.data)
