# SPDX-License-Identifier: MIT OR Apache-2.0
s/\([0-9]*\)-\([a-z]*\)/\2 \1/g
/7$/d
y/abc/xyz/
/^b.*5/{
N
s/\n/ + /
}
s/line/LINE/2
$!{h;d;x}
