# SPDX-License-Identifier: MIT OR Apache-2.0
# Example of a package. With USE=sediment, its programs are linked in the order of files/foo.gv.
EAPI=8

inherit flag-o-matic

DESCRIPTION="Example of a package in order"
HOMEPAGE="https://example.org"
SRC_URI="https://example.org/${P}.tar.gz"
LICENSE="MIT"
SLOT="0"
KEYWORDS="~amd64 ~arm64"
IUSE="sediment"
BDEPEND="sediment? ( dev-util/sediment )"

src_configure() {
	if use sediment; then
		append-flags -ffunction-sections
		mkdir -p "${T}/profiles" || die
		cp "${FILESDIR}/${PN}.gv" "${T}/profiles/" || die
		export COMPILER_PATH="${BROOT}/usr/libexec/sediment/ld"
		export PROF_DIR="${T}/profiles" SEDIMENT_LOG="${T}/log"
	fi
	default
}

src_test() {
	default
	if use sediment; then
		sediment verify --log "${T}/log" || ewarn "less is placed as ordered than expected"
	fi
}
