//! Pages of list and block records. The words of a page decode to records or errors, a decoded record encodes to the
//! same words, and each identifier has one place.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_format::{BlockRecord, LIST_RECORD_BYTES, ListRecord, Zones};

fuzz_target!(init: tonearm_fuzz::write_seeds("lists"), |data: &[u8]| {
    let Some((&choice, page)) = data.split_first() else {
        return;
    };
    let zones = Zones::new(4096 << (choice & 3));
    let zone = u64::from(choice >> 2);
    for (slot, record) in page.as_chunks::<{ LIST_RECORD_BYTES as usize }>().0.iter().enumerate() {
        let (words, _) = record.as_chunks::<8>();
        let words = [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])];
        if let Ok(record) = BlockRecord::decode(words) {
            assert_eq!(BlockRecord::encode(record), words, "the record encodes to the words that it was decoded from");
        }
        if let Ok(record) = ListRecord::decode(words) {
            assert_eq!(ListRecord::encode(record), words, "the record encodes to the words that it was decoded from");
        }
        let slot = slot as u64;
        if slot < zones.records() {
            let at = slot as u32 * LIST_RECORD_BYTES;
            let (list, block) = (zones.list(zone, slot), zones.block(zone, slot));
            let place = zones.list_record(list).expect("a list has a record");
            assert_eq!((place.page, place.at), (zones.list_page(zone), at));
            let place = zones.block_record(block).expect("a block of data has a record");
            assert_eq!((place.page, place.at), (zones.block_page(zone), at));
            assert_eq!((zones.zone_of_list(list), zones.zone_of_block(block)), (zone, zone));
        }
        // A number that has a place is the identifier of that place.
        for id in words {
            let own = zones.list_record(id).map(|place| zones.list(zones.zone_of_list(id), slot_of(place.at)));
            assert!(own.is_none_or(|own| own == id));
            let own = zones.block_record(id).map(|place| zones.block(zones.zone_of_block(id), slot_of(place.at)));
            assert!(own.is_none_or(|own| own == id));
        }
    }
});

fn slot_of(at: u32) -> u64 {
    u64::from(at / LIST_RECORD_BYTES)
}
