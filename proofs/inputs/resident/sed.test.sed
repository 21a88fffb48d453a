# SPDX-License-Identifier: MIT OR Apache-2.0
:again
s/\([0-9]\)\([0-9]\{3\}\)\($\|[^0-9]\)/\1,\2\3/
tagain
/[xz]\{2,\}/s/./-/g
/^[^,]*$/!{
H
}
2~9{
x
s/^\n//
s/\n/|/g
p
s/.*//
x
}
