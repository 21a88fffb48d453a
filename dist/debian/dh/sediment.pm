# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The debhelper sequence of sediment. A build dependency on dh-sequence-sediment loads it. It sets environment variables for all commands that dh
# runs: -ffunction-sections, and a folder where compilers search first for their linker. dh_sediment_link fills this folder after configuration,
# so that configure scripts do not find the links.

use strict;
use warnings;
use Cwd qw(getcwd);
use File::Path qw(make_path);
use Debian::Debhelper::Dh_Lib qw(get_buildoption sourcepackage);

my @languages = qw(CFLAGS CXXFLAGS FFLAGS FCFLAGS OBJCFLAGS OBJCXXFLAGS);
my $sections  = '-ffunction-sections';

sub appended {
    my ($variable, $more, $between) = @_;
    my $before = $ENV{$variable} // '';
    my @known  = split /\Q$between\E+/, $before;
    return if grep { $_ eq $more } @known;
    $ENV{$variable} = $before eq '' ? $more : "$before$between$more";
}

# Returns the text of debian/rules and the files that it includes, without comments, and true if all includes were read. An include whose name
# contains a variable other than CURDIR is not read. `sediment package deb` uses the same rules. dpkg's own makefiles are skipped, because they
# do not set maintainer flags.
sub makefiles {
    my ($text, $whole, %seen) = ('', 1);
    my @names = ('debian/rules');
    while (defined(my $name = shift @names)) {
        next if $name =~ m{^/usr/share/dpkg/} || $seen{$name}++;
        if ($name =~ /[\$*?\[]/ || keys %seen > 100) {
            $whole = 0;
            next;
        }
        next if !-f $name;
        open(my $file, '<', $name) or next;
        my $read = do { local $/; <$file> } // '';
        close($file);
        $read =~ s/\\\n/ /g;
        $read =~ s/^\s*#.*//mg;
        $text .= "$read\n";
        while ($read =~ /^ *(?:-|s)?include[ \t]+([^#\n]*)/mg) {
            push @names, map { s/^\$[({]CURDIR[)}]\///r } split ' ', $1;
        }
    }
    return ($text, $whole);
}

my ($makefiles, $whole) = makefiles();

# Returns the variables through which dpkg-buildflags appends to the flags of a language. If the package's makefiles set DEB_*_MAINT_* variables,
# they would replace DEB_*_MAINT_APPEND, so DEB_*_APPEND is used. If some includes were not read, both are set, and a flag may occur twice.
sub variables {
    my ($language) = @_;
    my ($maintainer, $builder) = ("DEB_${language}_MAINT_APPEND", "DEB_${language}_APPEND");
    return $builder if $makefiles =~ /\bDEB_${language}_MAINT_(?:APPEND|PREPEND|STRIP|SET)\b/;
    return $whole ? $maintainer : ($maintainer, $builder);
}

# True if a profile contains a function, or if there is another kind of file: a list of names, or an older order.
sub has_functions {
    for my $name (glob 'debian/sediment-profiles/*') {
        next if $name =~ m{/sediment\.conf$};
        return 1 if $name !~ /\.(?:gv|prof)$/;
        # Only regular files: a device may never end.
        next if !-f $name;
        open(my $file, '<', $name) or return 1;
        while (my $line = <$file>) {
            return 1 if $line !~ m{^\s*(?:[{};\s]*|(?:\#|//).*|(?:digraph|subgraph)\b[^\[\]{}]*\{?\s*|(?:graph|node|edge)\s*\[[^\]]*\];?\s*)$};
        }
    }
    return 0;
}

my $without = 'pkg.' . sourcepackage() . '.nosediment';
my $wanted =
     -d 'debian/sediment-profiles'
  && !get_buildoption('nopgo')
  && !grep { $_ eq $without } split ' ', $ENV{DEB_BUILD_PROFILES} // '';
if ($wanted && !has_functions()) {
    print {*STDERR} "sediment: debian/sediment-profiles names no function: the package is built without an order\n";
    $wanted = 0;
}

# DEB_BUILD_OPTIONS=sediment-graphs: the build also writes call graphs. Objects do not change.
if (get_buildoption('sediment-graphs')) {
    my $plugin = $ENV{SEDIMENT_PLUGIN} // '/usr/libexec/sediment/sediment.so';
    my $graphs = getcwd() . '/debian/.debhelper/sediment/graphs';
    if (-e $plugin) {
        make_path($graphs);
        $ENV{SEDIMENT_GV_DIR} = $graphs;
        # ccache must compile again, because an object from its cache has no graph.
        $ENV{CCACHE_RECACHE} = 1;
        for my $language (qw(CFLAGS CXXFLAGS FFLAGS FCFLAGS LDFLAGS)) {
            appended($language, "-fplugin=$plugin", ' ') if exists $ENV{$language};
            appended($_, "-fplugin=$plugin", ' ') for variables($language);
        }
        insert_after('dh_auto_install', 'dh_sediment_graphs');
    } else {
        print {*STDERR} "sediment: no call graphs: $plugin is missing; install sediment-gcc-plugin\n";
    }
}

my $state = getcwd() . '/debian/.debhelper/sediment';

# Prepends a folder to COMPILER_PATH, where compilers search for their programs.
sub found_by_compilers {
    my ($folder) = @_;
    $ENV{COMPILER_PATH} = join ':', $folder, grep { $_ ne '' && $_ ne $folder } split /:/, $ENV{COMPILER_PATH} // '';
}

# Folder of the scripts that run GCC's own compilers. They load the plugin if a variable is set, so no compiler flag is needed.
my $compilers = $ENV{SEDIMENT_COMPILERS} // '/usr/libexec/sediment/compilers';

# DEB_BUILD_OPTIONS=sediment-blocks: numbers blocks, so that recordings have block counts. The code does not change, except with counters:
# then fewer optimisations copy code.
if (get_buildoption('sediment-blocks')) {
    if (-d $compilers) {
        $ENV{SEDIMENT_NUMBER_BLOCKS} = 1;
        $ENV{CCACHE_RECACHE}         = 1;
        found_by_compilers($compilers);
    } else {
        print {*STDERR} "sediment: blocks are not numbered: $compilers is missing; install sediment-gcc-plugin\n";
    }
}

# True if a profile has counts inside functions: an attribute with this name, `blocks` or `counters`.
sub counts {
    my ($attribute) = @_;
    for my $name (grep { -f } glob 'debian/sediment-profiles/*.gv debian/sediment-profiles/*.prof') {
        open(my $file, '<', $name) or next;
        while (my $line = <$file>) {
            return 1 if $line =~ /[\[, ]$attribute="/;
        }
    }
    return 0;
}

if ($wanted) {
    my $top = getcwd();
    my @kinds = grep { counts($_) } qw(blocks counters);
    if (@kinds && !-d $compilers) {
        my $what = join ' and ', map { { blocks => 'block counts', counters => 'counters' }->{$_} } @kinds;
        print {*STDERR} "sediment: $what are not used: $compilers is missing; install sediment-gcc-plugin\n";
    } elsif (@kinds) {
        found_by_compilers($compilers);
        for my $kind (@kinds) {
            $ENV{ 'SEDIMENT_' . uc $kind } = "$state/$kind";
            # ccache does not see the file of counts, which is an input of the compilation.
            $ENV{CCACHE_EXTRAFILES} = join ':', grep { defined } $ENV{CCACHE_EXTRAFILES}, "$state/$kind";
        }
    }
    for my $language (@languages) {
        # dh has already computed the flags, so they are changed here. The second line is for a debian/rules that calls dpkg-buildflags again.
        appended($language, $sections, ' ') if exists $ENV{$language};
        appended($_, $sections, ' ') for variables($language);
    }
    found_by_compilers("$state/ld");
    $ENV{PROF_DIR}     = "$top/debian/sediment-profiles";
    $ENV{SEDIMENT_LOG} = "$state/log";
    insert_before('dh_auto_configure', 'dh_sediment');
    insert_after('dh_auto_configure', 'dh_sediment_link');
    insert_after('dh_auto_install', 'dh_sediment_check');
}

1;
