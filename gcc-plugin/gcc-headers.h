// SPDX-License-Identifier: GPL-3.0-or-later
// GCC's headers in an order that compiles with GCC 12 to 16.
#ifndef SEDIMENT_GCC_HEADERS_H
#define SEDIMENT_GCC_HEADERS_H

#include "gcc-plugin.h"
#include "plugin-version.h"

#include "tree.h"
#include "tree-pass.h"
#include "context.h"
#include "function.h"
#include "basic-block.h"
#include "gimple.h"
#include "sreal.h"
#include "cgraph.h"
#include "ipa-utils.h"
#include "diagnostic-core.h"
#include "options.h"
#include "opts.h"
#include "toplev.h"

#endif
