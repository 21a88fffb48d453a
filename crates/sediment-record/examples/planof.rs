fn main() {
    for p in std::env::args().skip(1) {
        let b = std::fs::read(&p).unwrap();
        let t = std::time::Instant::now();
        println!("{p}: {} in {} ms", sediment_record::call_sites::debug_plan(&b), t.elapsed().as_millis());
    }
}
