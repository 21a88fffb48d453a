# SPDX-License-Identifier: MIT OR Apache-2.0
#
# A grammar: of expressions with operators if `record` is set, otherwise of statements and lists.
BEGIN {
    print "%token NAME NUMBER"
    n = record ? 14 : 60
    for (i = 1; i <= n; i++) print record ? "%left OPERATOR" i : "%token WORD" i
    print "%%"
    if (record) {
        print "lines: | lines expression '\\n';"
        print "expression: NAME | NUMBER | '(' expression ')'"
        for (i = 1; i <= n; i++) print "  | expression OPERATOR" i " expression { $$ = $1 + $3; }"
        print "  | NAME '(' list ')';\nlist: expression | list ',' expression;"
    } else {
        print "program: statements;\nstatements: | statements statement;\nstatement: ';'"
        for (i = 1; i <= n; i++) print "  | WORD" i " part" i " ';'"
        print "  ;"
        for (i = 1; i <= n; i++) print "part" i ": NAME items" i " | '{' statements '}' { done(" i "); };\nitems" i ": | items" i " ',' " (i % 3 ? "NUMBER" : "NAME '=' value") ";"
        print "value: NUMBER | NAME | '-' value | '[' values ']';\nvalues: value | values ',' value;"
    }
    print "%%"
}
