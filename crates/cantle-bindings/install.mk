# Rules that the Makefiles of the C libraries share.
#
# `make` builds and strips the libraries as a user who has cargo, and stages them in $(STAGE).
# `make install` copies staged files, so root needs neither cargo nor the user's environment.
# Nothing of `install` runs cargo, except where nothing is staged and cargo is there.
#
# The Makefile that includes this file sets:
#     package    the crate
#     built_name the library as cargo names it
#     name       the library as it is installed: lib$(name).so
#     soname     the name that build.rs gives to the shared library

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
CARGO ?= cargo
CARGO_FLAGS ?= --locked
PROFILE ?= release
INSTALL ?= install
STRIP ?= strip
LDCONFIG ?= ldconfig

bindings := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
root := $(abspath $(bindings)/../..)
here := $(root)/crates/$(package)
export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),$(root)/target))
# Cargo's profile `dev` builds into the directory `debug`.
built := $(CARGO_TARGET_DIR)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
libs := $(built)/$(name).libs

version := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' $(root)/Cargo.toml)
# The version is part of the name: after an update, `install` must not take what was built before it.
STAGE ?= $(root)/target/stage/$(package)-$(version)

# Directories in the .pc file are relative to its prefix where they can be, so that it may be moved.
below_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))

.PHONY: all install uninstall clean

# rustc prints the system libraries that the static library needs only when it links; the touch
# makes it link if they are not known. The file of these libraries is staged last: where it is,
# everything is.
all:
	test -s $(libs) || touch $(here)/src/lib.rs
	cd $(root) && $(CARGO) rustc $(CARGO_FLAGS) --profile $(PROFILE) -p $(package) --lib -- \
		--print native-static-libs=$(libs)
	test -s $(libs)
	mkdir -p $(STAGE)
	rm -f $(STAGE)/$(name).libs
	$(STRIP) --strip-unneeded -o $(STAGE)/lib$(name).so $(built)/lib$(built_name).so
	$(STRIP) --strip-debug -o $(STAGE)/lib$(name).a $(built)/lib$(built_name).a
	cp $(libs) $(STAGE)/$(name).libs
	@echo "built; install with: make -C $(here) install PREFIX=$(PREFIX) (with sudo for a directory of root's)"

define install_libraries
	@test -s $(STAGE)/$(name).libs || command -v $(CARGO) >/dev/null || { \
		echo "$(package) is not built yet, and there is no cargo here. Run this as a user who has cargo:" >&2; \
		echo "    make -C $(here)" >&2; \
		echo "and then install again; installing needs no cargo." >&2; exit 1; }
	test -s $(STAGE)/$(name).libs || $(MAKE) -f $(here)/Makefile all
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR)
	$(INSTALL) -m 755 $(STAGE)/lib$(name).so $(DESTDIR)$(LIBDIR)/lib$(name).so.$(version)
	ln -sf lib$(name).so.$(version) $(DESTDIR)$(LIBDIR)/$(soname)
	ln -sf $(soname) $(DESTDIR)$(LIBDIR)/lib$(name).so
	$(INSTALL) -m 644 $(STAGE)/lib$(name).a $(DESTDIR)$(LIBDIR)/lib$(name).a
endef

# $(call install_pc,FILE): the pkg-config file FILE from FILE.in.
define install_pc
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(call below_prefix,$(LIBDIR))|' \
		-e 's|@INCLUDEDIR@|$(call below_prefix,$(INCLUDEDIR))|' -e 's|@VERSION@|$(version)|' \
		-e "s|@LIBS@|$$(cat $(STAGE)/$(name).libs)|" \
		$(here)/$(1).in >$(DESTDIR)$(LIBDIR)/pkgconfig/$(1)
endef

# A package's own scripts register what is staged below DESTDIR.
define register
	@test -n "$(DESTDIR)" || LDCONFIG="$(LDCONFIG)" sh $(bindings)/register.sh $(LIBDIR) $(soname)
endef

define uninstall_libraries
	rm -f $(DESTDIR)$(LIBDIR)/lib$(name).so.$(version) $(DESTDIR)$(LIBDIR)/$(soname) \
		$(DESTDIR)$(LIBDIR)/lib$(name).so $(DESTDIR)$(LIBDIR)/lib$(name).a
endef

clean:
	rm -rf $(STAGE)
	cd $(root) && $(CARGO) clean -p $(package)
