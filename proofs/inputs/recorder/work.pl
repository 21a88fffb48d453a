# SPDX-License-Identifier: MIT OR Apache-2.0
use strict;
my (%seen, @found);
sub weigh { my ($word, $turn) = @_; return length($word) * $turn % 17; }
for my $turn (1 .. 400_000) {
    my $word = sprintf "%x-%d", $turn * 7919 % 65521, $turn % 7;
    $seen{$word} += weigh($word, $turn);
    if ($word =~ /^(\w+)f-(\d)$/) { (my $other = $1) =~ tr/a-f/A-F/; push @found, "$other$2"; }
}
my @sorted = sort { $seen{$b} <=> $seen{$a} || $a cmp $b } keys %seen;
print scalar(@found), " $sorted[0] ", join(",", @sorted[10 .. 14]), "\n";
