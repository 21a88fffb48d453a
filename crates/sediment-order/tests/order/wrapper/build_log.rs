// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of finding links in the log of a build.

use sediment_order::wrapper::build_log::links;

#[test]
fn links_of_make_libtool_ninja_and_hand() {
    let log = "\
checking whether gcc works... yes
gcc -o conftest -O2 conftest.c >&5
make[2]: Entering directory '/b/src/bin/psql'
gcc -B/w -O2 -c -o main.o main.c
gcc -B/w -O2 main.o -L../../port -lpq -Wl,--as-needed -o psql
make[2]: Leaving directory '/b/src/bin/psql'
libtool: link: x86_64-linux-gnu-gcc-12 -shared -fPIC .libs/a.o -Wl,-soname -Wl,libx.so.1 -o .libs/libx.so.1.0.0
/bin/bash ./libtool --tag=CC --mode=link gcc -B/w -o libx.la a.lo
[3/4] : && /usr/bin/clang++-19 -O3 a.o -o bin/tool  && :
cd sub && LC_ALL=C ccache g++ x.o -o ../out
ld -r -o SUBSYS.o a.o
ld.bfd -shared -o plain.so a.o
echo gcc -o nothing a.o
gcc -E -o x.i x.c; gcc \"a b.o\" -o 'with blank'
gcc -fuse-ld=lld a.o -otight
";
    let found: Vec<(u64, String, bool, bool)> =
        links(log).into_iter().map(|link| (link.line, link.output, link.by_linker, link.shared)).collect();
    let expected = [
        (5, "/b/src/bin/psql/psql", false, false),
        (7, ".libs/libx.so.1.0.0", false, true),
        (10, "out", false, false),
        (12, "plain.so", true, true),
        (14, "with blank", false, false),
        (15, "tight", false, false),
    ];
    let expected: Vec<(u64, String, bool, bool)> = expected
        .into_iter()
        .map(|(line, output, by_linker, shared)| (line, output.to_owned(), by_linker, shared))
        .collect();
    assert_eq!(found.iter().filter(|link| link.0 != 9).cloned().collect::<Vec<_>>(), expected);
    assert!(found.iter().any(|link| link.0 == 9 && link.1 == "bin/tool"), "{found:?}");
    assert_eq!(links(log)[0].search, ["/w"]);
    assert!(links("").is_empty() && links("gcc -o").is_empty() && links("';\"\\").is_empty());
}
