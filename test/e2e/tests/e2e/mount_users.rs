//! Users of a mount, and what the kernel puts on top of it: credentials in units, files that others have made meanwhile, an overlay,
//! handles of files.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Stdio;
use tonearm_tests::mount::fuse_possible;
use tonearm_tests::{Bench, TreeMount, binary, skipped, tool};

/// A store that has only files, mounted for all users; `None` when this machine cannot mount.
fn mounted() -> Option<(Bench, TreeMount)> {
    if let Err(why) = fuse_possible() {
        skipped("the mounted file system", &why);
        return None;
    }
    let sizes = ["--size", "128MiB", "--log-size", "16MiB", "--no-volume"];
    let bench = Bench::created(&sizes);
    let mount = TreeMount::with_options(&bench, "allow_other");
    Some((bench, mount))
}

/// Runs a script in the root of the mount. Gives what it prints.
fn sh(bench: &Bench, script: &str) -> String {
    let tonearm = binary().display().to_string();
    let script = format!("cd mnt && {}", script.replace("TONEARM", &tonearm));
    bench.tool("sh", &["-c", &script])
}

/// A program of another user or group acts for itself: what it does in somebody's unit happens at once.
#[test]
fn programs_of_other_users_are_outside_of_a_unit() {
    let Some((bench, mount)) = mounted() else {
        return;
    };
    let said = sh(
        &bench,
        r#"
mkdir -m 777 open
TONEARM exec --atomic -- sh -c '
    setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "echo user >open/user && cat open/user"
    setpriv --regid=65534 --clear-groups sh -c "echo group >open/group"
    echo own >open/own
    setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "ls open"
    sh -c "echo inherited >&3" 3>open/inherited
    exit 9'
echo "code $?"; ls open; cat open/user open/group; stat -c %u:%g open/user open/group
"#,
    );
    let expected = "user\ngroup\nuser\ncode 9\ngroup\nuser\nuser\ngroup\n65534:65534\n0:65534\n";
    assert_eq!(said, expected);
    mount.unmount();
}

/// A loop of opens with O_CREAT by a user, while root's units make a file that only root may open. `ESTALE` is for two changes in a row.
const OPENS: &str = r"
import os, sys, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
end, flags = time.time() + float(sys.argv[1]), os.O_CREAT | os.O_RDWR | os.O_TRUNC
refused = got = 0
while time.time() < end:
    try: f = os.open('tmp/name', flags, 0o600)
    except PermissionError: refused += 1; continue
    except OSError as error:
        if error.errno != 116: raise
        continue
    got += os.fstat(f).st_uid == 0
    os.close(f)
    try: os.unlink('tmp/name')
    except (PermissionError, FileNotFoundError): pass
print('refused' if refused else 'never met', 'got', got)
";
const MAKES: &str = r"
import os, sys, time, fcntl
end = time.time() + float(sys.argv[1])
while time.time() < end:
    d = os.open('.', os.O_RDONLY)
    try:
        fcntl.ioctl(d, 3 << 30 | 8 << 16 | 0xe7 << 8 | 1, bytearray((1).to_bytes(8, 'little')))
        f = os.open('tmp/name', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(f, b'secret'); os.close(f)
        fcntl.ioctl(d, 0xe7 << 8 | 3)
        assert os.stat('tmp/name').st_size == 6
        os.unlink('tmp/name')
    except OSError as error: assert error.errno in (17, 125), error
    # The unit ends here, not some time after the close.
    try: fcntl.ioctl(d, 0xe7 << 8 | 4)
    except OSError: pass
    os.close(d)
";

/// The permissions of a file that a unit has made since the kernel looked are checked.
#[test]
fn creating_opens_do_not_open_files_of_others() {
    let Some((_bench, mount)) = mounted() else {
        return;
    };
    let root = mount.root();
    fs::create_dir(root.join("tmp")).expect("made");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    fs::set_permissions(root.join("tmp"), mode).expect("set");
    let python = |text: &str| {
        let mut command = tool(root, "python3");
        command.args(["-c", text, "1.5"]);
        command
    };
    let makes = python(MAKES)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let opens = python(OPENS).output().expect("it runs");
    let made = makes.wait_with_output().expect("it runs");
    assert!(made.status.success(), "{made:?}");
    assert!(opens.status.success(), "{opens:?}");
    assert_eq!(String::from_utf8_lossy(&opens.stdout), "refused got 0\n");
    mount.unmount();
}

/// The upper layer of an overlay hides and replaces what the lower one has, also after the store was mounted again.
#[test]
fn an_overlay_has_its_upper_layer_on_a_mount() {
    let Some((bench, mount)) = mounted() else {
        return;
    };
    let overlay =
        "mount -t overlay overlay -o lowerdir=lower,upperdir=mnt/upper,workdir=mnt/work over";
    let script = format!(
        "mkdir -p lower/dir/deep lower/gone over mnt/upper mnt/work
        echo one >lower/dir/one; echo two >lower/two; echo three >lower/three
        {overlay}
        cd over && mv dir moved && echo more >>two && rm three && mv two four && rm -r gone && mkdir gone && echo new >gone/new
        ls -R . && cat moved/one four gone/new; cd .. && umount over"
    );
    let said = bench.tool("sh", &["-c", &script]);
    let expected = ".:\nfour\ngone\nmoved\n\n./gone:\nnew\n\n./moved:\ndeep\none\n\n./moved/deep:\none\ntwo\nmore\nnew\n";
    assert_eq!(said, expected);
    let upper = mount.path("upper");
    let hidden = fs::symlink_metadata(upper.join("three")).expect("a whiteout");
    assert!(hidden.file_type().is_char_device() && hidden.rdev() == 0);
    mount.unmount();
    let mount = TreeMount::with_options(&bench, "allow_other");
    let again = format!(
        "{overlay}; cd over && ls -R . && cat moved/one four gone/new; cd .. && umount over"
    );
    assert_eq!(bench.tool("sh", &["-c", &again]), expected);
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// Prints the handle of a file, or what the file of a handle has.
const HANDLES: &str = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_uint), ('type', ctypes.c_int), ('data', ctypes.c_ubyte * 128)]
what, argument = sys.argv[1:3]
handle = Handle(128)
if what == 'of':
    mount = ctypes.c_int()
    assert libc.name_to_handle_at(-100, argument.encode(), ctypes.byref(handle), ctypes.byref(mount), 0) == 0, ctypes.get_errno()
    print(handle.type, bytes(handle.data[:handle.bytes]).hex())
else:
    data = bytes.fromhex(sys.argv[3])
    handle.bytes, handle.type = len(data), int(argument)
    handle.data[:len(data)] = data
    root = os.open('.', os.O_RDONLY)
    f = libc.open_by_handle_at(root, ctypes.byref(handle), os.O_RDONLY)
    if f < 0: print(os.strerror(ctypes.get_errno()))
    elif os.path.isdir('/proc/self/fd/%d' % f): print(sorted(os.listdir(f)))
    else: print(os.read(f, 100).decode())
";

fn handles(root: &Path, arguments: &[&str]) -> String {
    let mut command = tool(root, "python3");
    let ran = command.args(["-c", HANDLES]).args(arguments).output();
    let ran = ran.expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    String::from_utf8_lossy(&ran.stdout).trim().to_string()
}

/// Handles, with which NFS finds files, are valid over renames and mounts until the file is deleted, and never for another file.
#[test]
fn handles_are_those_of_one_file() {
    let Some((bench, mount)) = mounted() else {
        return;
    };
    sh(
        &bench,
        "mkdir dir && echo text >dir/file && echo gone >dir/gone",
    );
    let of = |root: &Path, name: &str| handles(root, &["of", name]);
    let root = mount.root();
    let names = ["dir/file", "dir/gone", "dir"];
    let found: Vec<String> = names.iter().map(|name| of(root, name)).collect();
    sh(&bench, "mv dir/file moved && rm dir/gone");
    mount.unmount();
    let mount = TreeMount::with_options(&bench, "allow_other");
    let open = |handle: &str| {
        let (kind, data) = handle.split_once(' ').expect("two words");
        handles(mount.root(), &["open", kind, data])
    };
    assert_eq!(open(&found[0]), "text");
    assert_eq!(open(&found[1]), "Stale file handle");
    assert_eq!(open(&found[2]), "[]");
    // Of another file of the same number: only the generation differs.
    let other = found[0].clone();
    let changed = other.char_indices().map(|(at, digit)| match at {
        // After the type, the number of 8 bytes, and in the next 4.
        at if at == other.find(' ').expect("two words") + 1 + 16 => {
            char::from_digit(digit.to_digit(16).expect("hex") ^ 1, 16).expect("hex")
        }
        _ => digit,
    });
    assert_eq!(open(&changed.collect::<String>()), "Stale file handle");
    mount.unmount();
}
