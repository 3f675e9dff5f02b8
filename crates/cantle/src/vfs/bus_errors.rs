//! Keeps a process alive when a mapped file fails.
//!
//! A store into mapped memory cannot return an error. If the file system has gone down (XFS does so
//! after an I/O error in its metadata), if a device cannot read a page back, or if another process
//! cut the file short, the system sends SIGBUS, which kills the process. A library must not do that
//! to its host. Therefore mappings are registered here, with a handler of that signal. The handler
//! replaces the failed page by anonymous memory, records this, and lets the program continue. A
//! caller that stored bytes asks for [`Guard::state`] afterwards.
//!
//! Faults elsewhere go to the previous handler, or kill the process as they would without this one.
//! A host may install its own handler later and not pass on foreign faults. It then has the
//! behaviour that it would have without this module.
//!
//! The handler makes only system calls and atomic accesses. Its list only grows; its slots are
//! reused. No lock is taken: in a child that was forked while another thread held it, it would stay
//! locked for ever.
#![expect(unsafe_code, reason = "a signal handler")]

use super::Backing;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering::SeqCst};

/// A slot for a mapping, never freed.
struct MappingSlot {
    /// Start of the mapping. [`FREE`] if there is none, [`TAKEN`] if the slot's owner is about to
    /// set it.
    start: AtomicUsize,
    bytes: AtomicUsize,
    state: AtomicU8,
    next: *const MappingSlot,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

const SOUND: u8 = 0;
const DETACHED: u8 = 1;
const LOST: u8 = 2;

// SAFETY: `next` is written before other threads can see the slot, and slots are never freed.
unsafe impl Sync for MappingSlot {}

static SLOTS: AtomicPtr<MappingSlot> = AtomicPtr::new(std::ptr::null_mut());
/// The previous handler; null at first. Set once, before this module's handler is installed, and
/// never freed.
static BEFORE: AtomicPtr<Before> = AtomicPtr::new(std::ptr::null_mut());
static INSTALLED: AtomicBool = AtomicBool::new(false);

struct Before {
    /// The previous handler of the signal.
    action: libc::sigaction,
    page_bytes: usize,
}

/// A registered mapping.
#[derive(Debug)]
pub(super) struct Guard(&'static MappingSlot);

impl std::fmt::Debug for MappingSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MappingSlot({:#x})", self.start.load(SeqCst))
    }
}

impl Guard {
    /// Registers a mapping: from now on a failure of these bytes does not kill the process. They
    /// are a shared mapping of the caller, of whole pages, and stay so until the guard is dropped.
    pub(super) fn new(start: usize, bytes: usize) -> io::Result<Self> {
        if !INSTALLED.load(SeqCst) {
            install()?;
        }
        let take = |slot: &&MappingSlot| slot.start.compare_exchange(FREE, TAKEN, SeqCst, SeqCst).is_ok();
        let slot = slots().find(take).unwrap_or_else(new_slot);
        slot.bytes.store(bytes, SeqCst);
        slot.state.store(SOUND, SeqCst);
        slot.start.store(start, SeqCst);
        Ok(Self(slot))
    }

    /// The state of the mapping.
    pub(super) fn state(&self) -> Backing {
        match self.0.state.load(SeqCst) {
            SOUND => Backing::File,
            DETACHED => Backing::Memory,
            _ => Backing::Lost,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(FREE, SeqCst);
    }
}

/// Removes the mapping that begins at `start`.
#[cfg(test)]
pub(super) fn forget(start: usize) {
    let slot = slots().find(|slot| slot.start.load(SeqCst) == start);
    slot.unwrap().start.store(FREE, SeqCst);
}

/// A new slot, taken by the caller.
fn new_slot() -> &'static MappingSlot {
    let slot = Box::into_raw(Box::new(MappingSlot {
        start: AtomicUsize::new(TAKEN),
        bytes: AtomicUsize::new(0),
        state: AtomicU8::new(SOUND),
        next: SLOTS.load(SeqCst),
    }));
    loop {
        // SAFETY: just made, never freed, and not visible to others before the exchange succeeds.
        let next = unsafe { (*slot).next };
        match SLOTS.compare_exchange(next.cast_mut(), slot, SeqCst, SeqCst) {
            // SAFETY: as above; from here on only its atomics are changed.
            Ok(_) => return unsafe { &*slot },
            // SAFETY: as above.
            Err(first) => unsafe { (*slot).next = first },
        }
    }
}

fn slots() -> impl Iterator<Item = &'static MappingSlot> {
    let mut next = SLOTS.load(SeqCst).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: null, or a slot, which is never freed.
        let slot = unsafe { next.as_ref() }?;
        next = slot.next;
        Some(slot)
    })
}

fn install() -> io::Result<()> {
    // SAFETY: all zero is a value of this struct of numbers, sets of bits and pointers that may be null.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks for the installed handler, and writes to `action` only.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // If several threads come here at once, the first one's value counts: another may find this
    // module's handler installed already. All of them install the handler, so that it is there when
    // any of them returns.
    let before = Box::into_raw(Box::new(Before { action, page_bytes: rustix::param::page_size() }));
    if BEFORE.compare_exchange(std::ptr::null_mut(), before, SeqCst, SeqCst).is_err() {
        // SAFETY: just made, and no other thread has seen it.
        drop(unsafe { Box::from_raw(before) });
    }
    action.sa_sigaction = handle as *const () as usize;
    // On the thread's signal stack, as runtimes with small stacks demand.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `handle` is a handler of three arguments, as `SA_SIGINFO` demands, and does only what
    // handlers may do.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    INSTALLED.store(true, SeqCst);
    Ok(())
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: null, or set once and never freed.
    let Some(Before { action, page_bytes }) = (unsafe { BEFORE.load(SeqCst).as_ref() }) else { return };
    // SAFETY: the system passes a valid `info` to handlers with `SA_SIGINFO`; for SIGBUS it has an
    // address.
    let address = unsafe { (*info).si_addr() } as usize;
    let within = |slot: &&MappingSlot| {
        let start = slot.start.load(SeqCst);
        start > TAKEN && address.checked_sub(start).is_some_and(|at| at < slot.bytes.load(SeqCst))
    };
    if let Some(slot) = slots().find(within)
        && let Some(state) = replace(address - address % page_bytes, *page_bytes)
    {
        slot.state.fetch_max(state, SeqCst);
        return;
    }
    pass_on(action, signal, info, context);
}

/// Replaces a page by anonymous memory, with the page's content if that can be read; `None` if
/// there is no memory.
fn replace(page: usize, page_bytes: usize) -> Option<u8> {
    // SAFETY: the system calls access only the fresh page and the failed page of the program's
    // memory, and the latter is within a registered mapping. `process_vm_readv` fails if the page
    // cannot be read, and sends no signal. `errno`, which the interrupted code may be about to
    // read, is restored.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let fresh = libc::mmap(std::ptr::null_mut(), page_bytes, protection, flags, -1, 0);
        if fresh == libc::MAP_FAILED {
            *errno = before;
            return None;
        }
        let to = libc::iovec { iov_base: fresh, iov_len: page_bytes };
        let from = libc::iovec { iov_base: page as *mut libc::c_void, iov_len: page_bytes };
        let read = libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let moved = libc::mremap(fresh, page_bytes, page_bytes, flags, page as *mut libc::c_void);
        *errno = before;
        if moved == libc::MAP_FAILED {
            return None;
        }
        Some(if read == page_bytes as isize { DETACHED } else { LOST })
    }
}

fn pass_on(
    before: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match before.sa_sigaction {
        // The instruction runs again, and then the system acts as it does without a handler.
        // SAFETY: installs the previous handler.
        libc::SIG_DFL | libc::SIG_IGN => unsafe {
            libc::sigaction(signal, before, std::ptr::null_mut());
        },
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: a handler that is installed with `SA_SIGINFO` is a function of these
            // arguments.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler that is installed without it is a function of one argument.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_threads_that_register_each_has_its_places_alone() {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..1_000 {
                        // At addresses where nothing is mapped, and so nothing fails.
                        let starts: Vec<usize> =
                            (0..=round % 5).map(|at| 64 + 8 * (8 * thread + at)).collect();
                        let guards: Vec<Guard> =
                            starts.iter().map(|&start| Guard::new(start, 8).unwrap()).collect();
                        for (start, guard) in starts.iter().zip(&guards) {
                            assert_eq!(guard.0.start.load(SeqCst), *start);
                        }
                    }
                });
            }
        });
        assert!(slots().count() < 200, "slots are used again");
    }
}
