# SPDX-License-Identifier: MIT OR Apache-2.0
use strict; use warnings;
sub fib { my $n = shift; return $n < 2 ? $n : fib($n - 1) + fib($n - 2) } print fib(15), "\n";
my @queue = map { { id => $_, weight => ($_ * 7919) % 101, tags => [$_ % 3, $_ % 5] } } 1 .. 400;
my @heavy = grep { $_->{weight} > 50 } @queue; print scalar @heavy, "\n";
print join(' ', map { $_->{id} } (sort { $b->{weight} <=> $a->{weight} or $a->{id} <=> $b->{id} } @heavy)[0 .. 9]), "\n";
my %tree; for my $node (@queue) { push @{ $tree{ $node->{tags}[0] }{ $node->{tags}[1] } }, $node->{id} }
sub walk { my ($at, $depth) = @_; return ref $at eq 'HASH' ? join '', map { '  ' x $depth . "$_\n" . walk($at->{$_}, $depth + 1) } sort keys %$at : '  ' x $depth . scalar(@$at) . "\n" }
print walk(\%tree, 0);
my $packed = pack 'N n C a8 x2 w', 123456, 789, 42, 'sediment', 300; print unpack('H*', $packed), "\n"; print join('|', unpack 'N n C a8', $packed), "\n";
my @closures = map { my $n = $_; sub { $n += shift; return $n } } 1 .. 50; print $_->(3) + $_->(4), ' ' for @closures; print "\n";
open my $in, '<', $0 or die; my %seen; while (my $line = <$in>) { chomp $line; next unless length $line; $seen{$_}++ for $line =~ /([A-Za-z_]+)/g } close $in;
print join(',', grep { $seen{$_} > 6 } sort keys %seen), "\n";
for my $round (1 .. 30) { my $string = 'x' x $round . 'yz' x (40 - $round); $string =~ tr/xyz/abc/; my @parts = split /c/, $string; $string = reverse join '-', map { ucfirst } @parts; print index($string, 'b'), rindex($string, 'A'), "\n" if $string =~ /^(?:B?-)+(?<rest>.*)$/ }
my $result = eval { die { code => 7 } if $#queue; 1 }; print "caught $@->{code}\n" unless $result;
local $_ = join ';', map { sprintf '%05.2f/%x/%o/%e', $_ / 7, $_, $_, $_ ** 3 } 1 .. 200; print length, "\n"; my @fields = /([\d.]+)\/([0-9a-f]+)/g; print scalar(@fields), "\n";
my %inverse = reverse map { $_ => $_ * $_ } 1 .. 300; while (my ($square, $root) = each %inverse) { delete $inverse{$square} if $root % 2 } print scalar(keys %inverse), "\n"; print join(':', splice @{[1 .. 20]}, 3, 5), lc('ÄB'), wantarray() // 'undef', "\n";
