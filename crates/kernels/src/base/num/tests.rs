use super::*;

/// The `half` crate is the independent reference.
#[test]
fn halves_convert_exactly() {
    for bits in 0..=u16::MAX {
        let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
        assert!(f16_to_f32(h) == h.to_f32() || h.is_nan() && f16_to_f32(h).is_nan());
        assert!(bf16_to_f32(b) == b.to_f32() || b.is_nan() && bf16_to_f32(b).is_nan());
        assert!(f32_to_f16(h.to_f32()) == h || h.is_nan());
    }
    for i in 0..2_000_000u32 {
        let v = f32::from_bits(i.wrapping_mul(2_654_435_761));
        if !v.is_nan() {
            assert_eq!(f32_to_f16(v).to_bits(), f16::from_f32(v).to_bits(), "{v}");
            assert_eq!(f32_to_bf16(v).to_bits(), bf16::from_f32(v).to_bits(), "{v}");
        }
    }
    assert!(f32_to_f16(f32::NAN).is_nan() && f32_to_bf16(f32::NAN).is_nan());
}

/// Every value converts back to itself, and others round to the nearest neighbour.
#[test]
fn small_floats_round_to_nearest() {
    fn check(values: &[f32], new: impl Fn(f32) -> f32) {
        for pair in values.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let third = (b - a) / 3.0;
            assert_eq!(new(a), a);
            assert_eq!((new(a + third), new(b - third)), (a, b), "between {a} and {b}");
            assert_eq!(new(-a), -a);
        }
    }
    let values = |n: u8, f: &dyn Fn(u8) -> f32| (0..n).map(f).collect::<Vec<f32>>();
    check(&values(0x7f, &|i| F8E4M3(i).to_f32()), |v| F8E4M3::new(v).to_f32());
    check(&values(0x7c, &|i| F8E5M2(i).to_f32()), |v| F8E5M2::new(v).to_f32());
    check(&values(8, &|i| F4E2M1(i).to_f32()), |v| F4E2M1::new(v).to_f32());
    for code in 0..16 {
        assert_eq!(Nf4::new(Nf4(code).to_f32()), Nf4(code));
    }
}

/// Observed on OpenVINO 2026.4.1.
#[test]
fn edges() {
    let e4m3 = |v| F8E4M3::new(v).0;
    assert_eq!([449., 464., 465., 1e9, -500.].map(e4m3), [126, 126, 127, 127, 255]);
    assert_eq!([f32::INFINITY, f32::NEG_INFINITY, 0.017, -0.0].map(e4m3), [127, 255, 9, 128]);
    let e5m2 = |v| F8E5M2::new(v).0;
    assert_eq!([57344., 61439., 61440., 1e9, -448.].map(e5m2), [123, 123, 124, 124, 223]);
    let e8m0 = |v| F8E8M0::new(v).0;
    assert_eq!([1.5, 3.0, 6.0, 0.75, 0.1, 0.0, -1.0].map(e8m0), [128, 128, 130, 126, 124, 0, 0]);
    assert_eq!([f32::NAN, f32::INFINITY, 3.4e38].map(e8m0), [255, 254, 254]);
    assert_eq!([-1.7f32, 300.0].map(u8::from_f32), [255, 44]);
    assert_eq!(i4_values(&[-1.0, 7.0, -8.0]), [-1, 7, -8]);
    assert_eq!([1.0, -6.0, 0.5].map(|v| F4E2M1::new(v).0), [2, 15, 1]);
}

fn i4_values(values: &[f32]) -> Vec<i64> {
    values.iter().map(|v| I4::from_f32(*v).widen()).collect()
}
