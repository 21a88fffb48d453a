# SPDX-License-Identifier: MIT OR Apache-2.0
use strict; use warnings;
my (%count, @lines); my $state = 42;
sub draw { $state = ($state * 16807) % 2147483647; return $state % shift }
for my $i (1 .. 600) { push @lines, join ' ', map { sprintf '%s%03d', ('a' .. 'z')[draw(26)], draw(200) } 1 .. 8 }
for (@lines) { for my $word (split) { $count{$word}++; $count{lc substr $word, 0, 1} += length $word } }
for my $key (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count) { printf "%-8s %5d\n", $key, $count{$key} if $count{$key} > 3 }
my $text = join "\n", @lines;
my $found = () = $text =~ /\b([a-m])(\d)\2\d\b/g; print "$found\n";
(my $other = $text) =~ s/(\w)(\d+)/$2 . uc($1)/ge; print length $other, "\n";
my %by = map { my ($first) = /^(\w+)/; ($first => [split / /]) } @lines;
for my $first (sort keys %by) { my @sorted = sort { $a cmp $b } @{ $by{$first} }; print join(',', reverse @sorted[0 .. 2]), "\n" }
package Stack; sub new { my $class = shift; return bless { items => [@_] }, $class } sub push { my $self = shift; push @{ $self->{items} }, @_; return $self }
sub sum { my $self = shift; my $sum = 0; $sum += $_ for @{ $self->{items} }; return $sum }
package main;
my $stack = Stack->new(1, 2); $stack->push($_ % 7) for 1 .. 2000; print $stack->sum, "\n";
while ($text =~ m{^(\S+) (\S+)}mg) { $count{pairs}{"$1-$2"} = pos $text if 0; $count{"$1-$2"}++ } print scalar(keys %count), "\n";
