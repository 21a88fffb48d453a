# SPDX-License-Identifier: MIT OR Apache-2.0
# perl family.pl
# A bounded fork tree of 255 processes adds up exit statuses, then three orphaned daemons outlive the parent (status 3), take turns by flock and print the last lines.
use strict;
use warnings;
use POSIX qw(setsid WNOHANG);
use Fcntl qw(:flock);
$| = 1;

sub work { my $n = shift; return $n < 2 ? $n : work($n - 1) + work($n - 2) }

# every node returns (sum of its children + 1) mod 256 and writes one byte
sub tree {
    my ($depth, $out) = @_;
    syswrite $out, chr($depth);
    my $sum = 1;
    if ($depth > 0) {
        my @kids;
        for (1 .. 2) {
            my $p = fork // die "fork: $!";
            exit tree($depth - 1, $out) if $p == 0;
            push @kids, $p;
        }
        for my $k (@kids) { waitpid $k, 0; $sum += $? & 127 ? 200 : $? >> 8 }
    }
    return $sum % 256;
}

pipe my $r, my $w or die;
my $root = fork // die;
if ($root == 0) { close $r; exit tree(7, $w) }
close $w;
my %level;
while (sysread $r, my $b, 1) { $level{ord $b}++ }
waitpid $root, 0;
print "levels ", join(' ', map { $level{$_} } sort { $a <=> $b } keys %level), ", status ", $? >> 8, "\n";

# signals: the parent collects a crowd of children by SIGCHLD
my ($seen, $codes) = (0, 0);
$SIG{CHLD} = sub { while ((my $p = waitpid -1, WNOHANG) > 0) { $seen++; $codes += $? } };
for my $i (1 .. 40) { my $p = fork // die; POSIX::_exit($i) if $p == 0 }
select undef, undef, undef, 0.01 while $seen < 40;
$SIG{CHLD} = 'DEFAULT';
print "crowd $seen, codes ", $codes / 256, "\n";

# orphans: each waits for the parent's end and for its turn
my $lock = "/tmp/family-$$";
open my $made, '>', $lock or die;
close $made;
pipe my $alive, my $life or die;    # ends with the parent
my @turn = map { pipe my $a, my $b; [$a, $b] } 0 .. 3;
for my $k (1 .. 3) {
    my $p = fork // die;
    if ($p == 0) {
        my $q = fork // die;
        POSIX::_exit(0) if $q;
        setsid();
        alarm 3;
        close $life;
        close $turn[$_][1] for grep { $_ != $k } 0 .. 3;
        sysread $alive, my $b, 1;
        sysread $turn[$k - 1][0], $b, 1;
        open my $l, '<', $lock or die;
        flock $l, LOCK_EX;
        print "orphan $k computed ", work(15 + $k), " in its own session: ", (getpgrp() == $$ ? 'yes' : 'no'), "\n";
        unlink $lock if $k == 3;
        close $l;
        syswrite $turn[$k][1], 'x';
        POSIX::_exit(0);
    }
    waitpid $p, 0;
}
print "parent leaves\n";
syswrite $turn[0][1], 'x';
exit 3;
