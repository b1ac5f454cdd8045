//! Image formats that are no plain images. Put into a volume as they are, they would be no disk for any guest.

/// Bytes of the start of an image from which all formats are known.
pub const HEAD_BYTES: usize = 512;

/// A format of images, or of compressed files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// How it becomes a plain image.
    convert: Convert,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Convert {
    /// By `qemu-img convert -f` with this name.
    QemuImg(&'static str),
    /// By this program, which writes to its standard output.
    Unpack(&'static str),
}

/// Formats by the bytes that their files have at an offset.
const FORMATS: &[(usize, &[u8], Format)] = &[
    (0, b"QFI\xfb", image("qcow2", "qcow2")),
    (0, b"QED\0", image("QED", "qed")),
    (0, b"KDMV", image("VMDK", "vmdk")),
    (0, b"COWD", image("VMDK", "vmdk")),
    (0, b"# Disk DescriptorFile", image("VMDK", "vmdk")),
    (0x40, b"\x7f\x10\xda\xbe", image("VDI", "vdi")),
    (0, b"vhdxfile", image("VHDX", "vhdx")),
    (0, b"conectix", image("VHD", "vpc")),
    (0, b"WithoutFreeSpace", image("Parallels", "parallels")),
    (0, b"WithouFreSpacExt", image("Parallels", "parallels")),
    (0, b"\x1f\x8b\x08", packed("gzip", "zcat")),
    (0, b"\xfd7zXZ\0", packed("xz", "xzcat")),
    (0, b"\x28\xb5\x2f\xfd", packed("Zstandard", "zstdcat")),
    (0, b"BZh", packed("bzip2", "bzcat")),
];

const fn image(name: &'static str, of_qemu: &'static str) -> Format {
    Format {
        name,
        convert: Convert::QemuImg(of_qemu),
    }
}

const fn packed(name: &'static str, program: &'static str) -> Format {
    Format {
        name,
        convert: Convert::Unpack(program),
    }
}

impl Format {
    /// The format of an image that begins with `head`; none for a plain image.
    pub fn of(head: &[u8]) -> Option<Self> {
        let mut formats = FORMATS.iter();
        let found = formats.find(|(at, magic, _)| {
            head.get(*at..*at + magic.len())
                .is_some_and(|bytes| bytes == *magic)
        });
        found.map(|(_, _, format)| *format)
    }

    /// What the user can do with the image called `file` (a word for the shell) instead of putting it into volume `volume` of
    /// `store`.
    pub fn advice(self, file: &str, store: &str, volume: &str) -> String {
        let Self { name, convert } = self;
        let instead = match convert {
            Convert::QemuImg(of) if file == "-" => {
                format!("convert it to a file first (qemu-img convert -f {of} -O raw)")
            }
            Convert::QemuImg(of) => format!(
                "`qemu-img convert -f {of} -O raw {file} image.raw` makes a plain image, and `tonearm volume put {store} {volume} \
                 image.raw` copies that"
            ),
            Convert::Unpack(program) if file == "-" => format!("unpack it first with {program}"),
            Convert::Unpack(program) => format!(
                "`{program} {file} | tonearm volume put {store} {volume} -` copies what is in it"
            ),
        };
        format!("{name} is no plain image: {instead}; --raw copies it as it is")
    }
}

#[cfg(test)]
#[path = "format_test.rs"]
mod format_test;
