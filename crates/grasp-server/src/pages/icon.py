#!/usr/bin/env python3
"""Draws icon.png: a branch that leaves its line and comes back as a dot, on a rounded square."""
import struct
import sys
import zlib

SIZE, FINE = 64, 4
PAPER, INK = (91, 62, 201), (255, 255, 255)


def inside_square(x, y, radius=0.22):
    dx, dy = max(radius - x, x - 1 + radius, 0), max(radius - y, y - 1 + radius, 0)
    return dx * dx + dy * dy <= radius * radius


def near_segment(x, y, x0, y0, x1, y1, width):
    length = (x1 - x0) ** 2 + (y1 - y0) ** 2
    t = max(0, min(1, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length))
    return (x - x0 - t * (x1 - x0)) ** 2 + (y - y0 - t * (y1 - y0)) ** 2 <= width * width


def is_ink(x, y):
    dots = [(0.34, 0.24), (0.34, 0.76), (0.68, 0.34)]
    lines = [(0.34, 0.24, 0.34, 0.76), (0.68, 0.34, 0.68, 0.42), (0.68, 0.42, 0.34, 0.64)]
    return any((x - a) ** 2 + (y - b) ** 2 <= 0.0115 for a, b in dots) or any(
        near_segment(x, y, *line, 0.04) for line in lines
    )


def pixel(px, py):
    paper = ink = 0
    for sy in range(FINE):
        for sx in range(FINE):
            x, y = (px + (sx + 0.5) / FINE) / SIZE, (py + (sy + 0.5) / FINE) / SIZE
            if inside_square(x, y):
                paper += 1
                ink += is_ink(x, y)
    if not paper:
        return b"\0\0\0\0"
    mix = ink / paper
    return bytes(round(p + (i - p) * mix) for p, i in zip(PAPER, INK)) + bytes([round(255 * paper / FINE**2)])


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


rows = b"".join(b"\0" + b"".join(pixel(x, y) for x in range(SIZE)) for y in range(SIZE))
sys.stdout.buffer.write(
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", SIZE, SIZE, 8, 6, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(rows, 9))
    + chunk(b"IEND", b"")
)
