# SPDX-License-Identifier: MIT OR Apache-2.0
use strict; use warnings;
# Records are read from text, changed, and written again.
my $text = ''; my $seed = 3;
for my $id (1 .. 500) { $seed = ($seed * 48271) % 2147483647; $text .= "id=$id; name=\"user $seed\"; score=" . ($seed % 997) / 10 . "; tags=a$id,b" . ($id % 9) . "\n" }
my @records;
for my $line (split /\n/, $text) {
    my %record;
    while ($line =~ /\G(\w+)=(?:"([^"]*)"|([^;]*));?\s*/gc) { $record{$1} = defined $2 ? $2 : $3 }
    $record{tags} = [split /,/, $record{tags}]; push @records, \%record;
}
local $, = '|'; local $\ = "\n";
for my $record (sort { $b->{score} <=> $a->{score} } grep { $_->{id} % 7 } @records) {
    next if $record->{score} < 80;
    print $record->{id}, uc $record->{name}, sprintf('%.3e', $record->{score}), join('+', map { substr $_, 1 } @{ $record->{tags} });
}
my @grid = map { [map { $_ * 3 % 11 } 1 .. 30] } 1 .. 30; my $sum = 0;
for my $row (0 .. 29) { for my $column (0 .. 29) { $sum += $grid[$row][$column] * $grid[$column][$row] if $row != $column } } print $sum;
my $vector = ''; vec($vector, $_, 4) = $_ % 16 for 0 .. 200; print unpack('%32b*', $vector), length $vector;
my $here = sprintf "%s", join ',', map { chr(65 + $_ % 26) x ($_ % 4) } 1 .. 120; $here =~ s/([A-Z])\1+/<$1>/g; print $here;
my @stack; for (1 .. 3000) { if ($_ % 3) { push @stack, $_ } else { pop @stack; unshift @stack, shift @stack if @stack } } print scalar @stack;
