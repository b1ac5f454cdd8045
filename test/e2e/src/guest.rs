//! Virtual machines for tests: QEMU with a kernel of Debian and an initial file system in memory (`scripts/guest.sh`), which runs
//! the script of the test.
//!
//! The processor is emulated (TCG), which every machine can do. With `TONEARM_GUEST_KVM=1` the processor's own virtualisation is
//! used, if a guest boots with it in half a minute; nested virtualisation can hang there.
//!
//! A guest talks to its test in lines on its second serial port. The first one has the messages of the kernel, which a failed
//! test prints.

use crate::bench::{Bench, binary};
use crate::tool::require;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longest time between two lines of a guest, several times what one needs to boot on a slow machine.
const SILENCE: Duration = Duration::from_secs(180);

/// Memory of a guest whose options say nothing about it.
const MEMORY: &str = "384M";

/// What every script begins with: the kernel's file systems, modules by name, and `say`, which sends a line to the test, and
/// `attach STORE ...`, which starts a server and waits until it has made its device, `$device`.
/// A command that fails ends the guest, and says so.
const PROLOGUE: &str = "\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /run
say() { echo \"$*\" >/dev/ttyS1; }
failed() { say \"FAILED $*\"; sleep 1; poweroff -f; }
must() { \"$@\" >/run/out 2>&1 || failed \"$* gave $?: $(tail -n 5 /run/out | tr '\\n' '|')\"; }
attach() {
    : >/run/attached
    tonearm attach \"$@\" >>/run/attached 2>/run/notes &
    server=$!
    until grep -q ^attached /run/attached; do
        kill -0 $server || failed \"no server: $(cat /run/notes)\"
        usleep 20000
    done
    device=$(sed 's/.* as //' /run/attached)
}
# make_fs FS DEVICE, check_fs FS DEVICE
make_fs() {
    case $1 in
        ext4) must /bin/mke2fs -q -t ext4 $2 ;;
        *) must mkfs.$1 -q -f $2 ;;
    esac
}
check_fs() {
    case $1 in
        ext4) must e2fsck -fn $2 ;;
        xfs) must xfs_repair -n $2 ;;
        btrfs) must btrfs check $2 ;;
    esac
}
option() { for word in $(cat /proc/cmdline); do case $word in \"$1=\"*) echo \"${word#*=}\" ;; esac; done; }
";

/// The end of every script: the guest shuts down in order.
const EPILOGUE: &str = "\nsay end\nsync\npoweroff -f\n";

/// A program for guests, and its options.
pub struct Image {
    kernel: PathBuf,
    initial: PathBuf,
}

/// A guest that runs.
pub struct Machine {
    child: Child,
    lines: Receiver<String>,
    console: PathBuf,
}

/// The package of Debian that the kernel is from.
///
/// # Panics
/// When the kernel has not been downloaded.
#[track_caller]
pub fn kernel_package() -> String {
    let name = std::fs::read_to_string(made().join("package"));
    name.expect("scripts/guest.sh writes it").trim().to_owned()
}

impl Image {
    /// An image in the folder of the test whose guests run `script` (for busybox's sh). They have `tonearm` and `guest-load`.
    #[track_caller]
    pub fn new(bench: &Bench, script: &str, load: &Path) -> Self {
        let made = made();
        let folder = bench.path("initial");
        std::fs::create_dir_all(folder.join("bin")).expect("a folder");
        let init = folder.join("init");
        std::fs::write(&init, [PROLOGUE, script, EPILOGUE].concat()).expect("written");
        std::fs::set_permissions(&init, PermissionsExt::from_mode(0o755)).expect("set");
        require("strip");
        for (program, name) in [(binary(), "tonearm"), (load, "guest-load")] {
            let mut strip = Command::new("strip");
            strip.arg("-o").arg(folder.join("bin").join(name));
            assert!(strip.arg(program).status().expect("it runs").success());
        }
        let initial = bench.path("initial.cpio");
        // The kernel unpacks archives that follow each other.
        std::fs::copy(made.join("base.cpio"), &initial).expect("copied");
        let mut pack = Command::new("sh");
        pack.arg("-c")
            .arg("find . | \"$0\" cpio -o -H newc >>\"$1\"")
            .arg(made.join("busybox"))
            .arg(&initial)
            .stderr(Stdio::null())
            .current_dir(&folder);
        assert!(pack.status().expect("sh runs").success());
        Self {
            kernel: made.join("vmlinuz"),
            initial,
        }
    }

    /// Boots a guest with these options of QEMU. `words` are words of the kernel's command line, which the script reads
    /// with `option NAME`.
    #[track_caller]
    pub fn boot(&self, bench: &Bench, options: &[&str], words: &str) -> Machine {
        self.boot_on(accelerator(), bench, options, words)
    }

    /// As [`Image::boot`], with a drive of `bytes`, which is empty at the first time: the file `drive` of the folder, /dev/vda.
    ///
    /// # Panics
    /// As [`Image::boot`].
    #[track_caller]
    pub fn boot_with_drive(&self, bench: &Bench, bytes: u64, words: &str) -> Machine {
        let file = std::fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(bench.path("drive"));
        file.and_then(|file| file.set_len(bytes)).expect("a drive");
        let drive = [
            "-drive",
            "file=drive,format=raw,if=none,id=drive",
            "-device",
            "virtio-blk-pci,drive=drive",
        ];
        self.boot(bench, &drive, words)
    }

    fn boot_on(&self, accelerator: &str, bench: &Bench, options: &[&str], words: &str) -> Machine {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let console = bench.path(&format!("console-{number}"));
        require("qemu-system-x86_64");
        let mut qemu = Command::new("qemu-system-x86_64");
        if !options.contains(&"-m") {
            qemu.args(["-m", MEMORY]);
        }
        qemu.current_dir(bench.path(""))
            .args(["-M", "q35", "-smp", "1", "-accel", accelerator])
            .args([
                "-display",
                "none",
                "-monitor",
                "none",
                "-no-reboot",
                "-nodefaults",
            ])
            .args(["-serial", &format!("file:{}", console.display())])
            .args(["-serial", "stdio"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.initial)
            .args(["-append", &format!("console=ttyS0 quiet panic=-1 {words}")])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(bench.path(&format!("qemu-{number}.err"))).expect("a file"));
        let mut child = qemu.spawn().expect("qemu runs");
        let output = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                // A guest that lost its power may have sent half a line.
                let whole = line.ends_with(b"\n");
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if !whole || sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Machine {
            child,
            lines,
            console,
        }
    }
}

impl Machine {
    /// The next line of the guest; none when it has ended.
    #[track_caller]
    pub fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(SILENCE) {
            Ok(line) if line.starts_with("FAILED") => panic!("{line}; {}", self.said()),
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("the guest says nothing for {SILENCE:?}; {}", self.said())
            }
        }
    }

    /// Waits for a line that begins with `start`, and returns the rest of it.
    #[track_caller]
    pub fn wait_for(&self, start: &str) -> String {
        loop {
            let line = self.line();
            let line = line.unwrap_or_else(|| panic!("no {start:?}; {}", self.said()));
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Takes the power from the guest, and returns the lines that it sent before.
    pub fn cut_power(mut self) -> Vec<String> {
        self.child.kill().expect("killed");
        self.child.wait().expect("an end");
        self.lines.iter().collect()
    }

    /// Waits until the guest has ended in order.
    #[track_caller]
    pub fn ended(mut self) {
        self.wait_for("end");
        while self.line().is_some() {}
        let status = self.child.wait().expect("an end");
        assert!(status.success(), "{status}");
    }

    /// The last messages of the guest's kernel.
    fn said(&self) -> String {
        let text = std::fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(40);
        format!("its kernel said:\n{}", lines[last..].join("\n"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The directory that `scripts/guest.sh` makes.
fn made() -> PathBuf {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest");
    assert!(
        made.join("vmlinuz").exists(),
        "there is no target/guest; `make guest`, or scripts/guest.sh, makes it"
    );
    made
}

/// `tcg`, or `kvm` where it was asked for and works.
fn accelerator() -> &'static str {
    static FOUND: OnceLock<&str> = OnceLock::new();
    FOUND.get_or_init(|| {
        if std::env::var("TONEARM_GUEST_KVM").as_deref() != Ok("1") {
            return "tcg";
        }
        let bench = Bench::new();
        let image = Image::new(&bench, "", Path::new("/bin/true"));
        let guest = image.boot_on("kvm", &bench, &[], "");
        let until = Instant::now() + Duration::from_secs(30);
        let left = until.saturating_duration_since(Instant::now());
        match guest.lines.recv_timeout(left) {
            Ok(line) if line == "end" => "kvm",
            _ => {
                eprintln!("no guest boots with KVM here: its processor is emulated");
                "tcg"
            }
        }
    })
}
