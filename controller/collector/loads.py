# SPDX-License-Identifier: Apache-2.0
"""Memory as compiled loops see it: addresses, and tables of int64 rows at them.

Passing arrays between compiled functions counts references and checks for negative indices, which
costs several times what decoding a report costs. So the loops are given addresses; whoever calls an
entry point holds the arrays meanwhile. Nothing here checks a bound: before a load, its place has
been compared with the end of the datagram.

`u8`, `be16` and `be32` give non-negative numbers; `be64` and `get` give 64 bits as a signed one.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def _pointer(builder: Any, address: Any, bits: int) -> Any:  # noqa: ANN401
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _declare_load(bits: int) -> Any:  # noqa: ANN401
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        value = builder.load(_pointer(builder, arguments[0], bits))
        value.align = 1
        if bits > 8:
            value = builder.bswap(value)
        return builder.zext(value, _WORD) if bits < 64 else value

    def load(typing_context: Any, address: Any) -> Any:  # noqa: ANN401
        return types.int64(types.int64), build

    return intrinsic(load)


u8 = _declare_load(8)
be16 = _declare_load(16)
be32 = _declare_load(32)
be64 = _declare_load(64)


@intrinsic
def get(typing_context: Any, row: Any, column: Any) -> Any:  # noqa: ANN401
    """The int64 in a column of the row at an address."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        pointer = _pointer(builder, arguments[0], 64)
        return builder.load(builder.gep(pointer, [arguments[1]]))

    return types.int64(types.int64, types.int64), build


@intrinsic
def put(typing_context: Any, row: Any, column: Any, value: Any) -> Any:  # noqa: ANN401
    """Write the int64 in a column of the row at an address."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        pointer = _pointer(builder, arguments[0], 64)
        builder.store(arguments[2], builder.gep(pointer, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), build


@intrinsic
def count_up(typing_context: Any, row: Any, column: Any) -> Any:  # noqa: ANN401
    """Add 1 to the int64 in a column of the row at an address."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        place = builder.gep(_pointer(builder, arguments[0], 64), [arguments[1]])
        builder.store(builder.add(builder.load(place), ir.Constant(_WORD, 1)), place)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), build


def _declare_narrow_put(bits: int) -> Any:  # noqa: ANN401
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        pointer = _pointer(builder, arguments[0], bits)
        stored = builder.store(builder.trunc(arguments[1], ir.IntType(bits)), pointer)
        stored.align = 1
        return context.get_dummy_value()

    def store(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ANN401
        return types.void(types.int64, types.int64), build

    return intrinsic(store)


put8 = _declare_narrow_put(8)
put16 = _declare_narrow_put(16)
put32 = _declare_narrow_put(32)
"""The low bits of a number, unaligned, in the machine's byte order: fields of records."""


def _declare_put64() -> Any:  # noqa: ANN401
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        stored = builder.store(arguments[1], _pointer(builder, arguments[0], 64))
        stored.align = 1
        return context.get_dummy_value()

    def store(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ANN401
        return types.void(types.int64, types.int64), build

    return intrinsic(store)


put64 = _declare_put64()


def _declare_native_load(bits: int) -> Any:  # noqa: ANN401
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        value = builder.load(_pointer(builder, arguments[0], bits))
        value.align = 1
        return builder.zext(value, _WORD) if bits < 64 else value

    def load(typing_context: Any, address: Any) -> Any:  # noqa: ANN401
        return types.int64(types.int64), build

    return intrinsic(load)


get8 = _declare_native_load(8)
get16 = _declare_native_load(16)
get32 = _declare_native_load(32)
get64 = _declare_native_load(64)
"""Fields of records, unaligned, in the machine's byte order."""


@intrinsic
def mix(typing_context: Any, a: Any, b: Any) -> Any:  # noqa: ANN401
    """High half of the 128-bit product xor its low half: each bit depends on all."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _WORD)
        return builder.xor(high, builder.trunc(product, _WORD))

    return types.int64(types.int64, types.int64), build


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:  # noqa: ANN401
    """Ask for the memory at an address that will be read soon."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.globals.get("llvm.prefetch.p0i8")
        if function is None:
            function = ir.Function(builder.module, kind, "llvm.prefetch.p0i8")
        constants = [ir.Constant(number, value) for value in (0, 3, 1)]
        builder.call(function, [builder.inttoptr(arguments[0], byte), *constants])
        return context.get_dummy_value()

    return types.void(types.int64), build


def address_of(array: Any) -> int:  # noqa: ANN401
    """Where the elements of a contiguous array lie; the caller keeps it alive."""
    assert array.flags.c_contiguous
    return int(array.ctypes.data)
