use super::first_part;
use std::collections::VecDeque;
use tonearm_base::BufPool;

#[test]
fn parts_have_each_byte_once_and_in_order() {
    let pool = BufPool::new(0);
    let all: Vec<u8> = (0..=255).collect();
    for most in 1..=257 {
        let mut rest = VecDeque::new();
        for range in [0..3, 3..4, 4..100, 100..101, 101..256] {
            rest.push_back(pool.copy_of(&all[range]).share());
        }
        let mut found = Vec::new();
        while !rest.is_empty() {
            let (part, bytes) = first_part(&mut rest, most);
            let lens: usize = part.iter().map(|slice| slice.len()).sum();
            assert_eq!(lens as u64, bytes);
            assert!(bytes == most || rest.is_empty() && bytes < most);
            part.iter().for_each(|slice| found.extend_from_slice(slice));
        }
        assert_eq!(found, all, "parts of {most} bytes");
    }
}
