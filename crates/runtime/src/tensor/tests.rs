use super::*;
use ElementType::*;

#[test]
fn parts_share_memory() {
    let t = Tensor::from_vec(&[2, 3], vec![1f32, 2., 3., 4., 5., 6.]).unwrap();
    let row = t.part(12, F32, &[3]).unwrap();
    assert_eq!(row.as_slice::<f32>().unwrap(), [4., 5., 6.]);
    assert_eq!(row.bytes().as_ptr(), t.bytes()[12..].as_ptr());
    assert!(t.part(16, F32, &[3]).is_err());
    assert!(t.as_slice::<i32>().is_none() && t.cast::<u32>().is_some());
    assert!(t.cast::<u64>().is_none());
}

#[test]
fn sizes_are_checked_before_memory_is_taken() {
    assert!(Tensor::zeros(F32, &[1 << 40, 1 << 40]).is_err());
    assert!(Tensor::zeros(F32, &[usize::MAX, 2, 0]).is_err());
    assert!(Tensor::zeros(U8, &[1 << 62]).is_err());
    assert!(Tensor::zeros(String, &[1 << 50]).is_err());
    assert!(Tensor::from_vec(&[3], vec![1i64]).is_err());
    assert!(Tensor::strings(&[2], vec![Box::from("a")]).is_err());
}

#[test]
fn unaligned_bytes_are_noticed() {
    static ZEROS: [u8; 64] = [0; 64];
    let at = ZEROS.as_ptr() as usize;
    let start = at.next_multiple_of(4) - at + 1;
    let t = Tensor::from_shared(F32, &[4], &ZEROS[start..]).unwrap();
    assert!(!t.is_aligned() && t.as_slice::<f32>().is_none());
    assert_eq!(t.to_owned().unwrap().as_slice::<f32>().unwrap(), [0.0; 4]);
}

#[test]
fn only_unshared_memory_is_written() {
    let mut t = Tensor::zeros(U8, &[4]).unwrap();
    t.bytes_mut().unwrap()[0] = 7;
    let other = t.clone();
    assert!(t.bytes_mut().is_none());
    assert_eq!(other.bytes()[0], 7);
    drop(other);
    assert!(t.is_unique() && t.bytes_mut().is_some());
}

#[test]
#[should_panic(expected = "output 0 overlaps input 0")]
fn overlapping_steps_are_refused() {
    let t = Tensor::zeros(U8, &[8]).unwrap();
    let (a, b) = (t.part(0, U8, &[5]).unwrap(), t.part(4, U8, &[4]).unwrap());
    Access::new(smallvec::smallvec![&a], smallvec::smallvec![Some(&b)], None);
}

#[test]
fn outputs_are_written_in_place_when_declared() {
    let a = Tensor::zeros(F32, &[4]).unwrap();
    let b = a.clone();
    let inputs = smallvec::smallvec![&a];
    let mut access =
        Access::new(inputs, smallvec::smallvec![Some(&b)], Some(Overwrite { input: 0, output: 0 }));
    access.output::<f32>(0).fill(2.0);
    assert_eq!(a.as_slice::<f32>().unwrap(), [2.0; 4]);
}

/// More outputs than a machine word has bits.
#[test]
fn a_step_may_have_any_number_of_outputs() {
    let tensors: Vec<Tensor> = (0..70).map(|_| Tensor::zeros(U8, &[1]).unwrap()).collect();
    let outputs = tensors.iter().map(Some).collect();
    let mut access = Access::new(smallvec::smallvec![], outputs, None);
    for output in 0..70 {
        access.output::<u8>(output).fill(output as u8);
    }
    assert!(tensors.iter().zip(0..).all(|(t, i)| t.bytes() == [i]));
}

#[test]
#[should_panic(expected = "output 1 overlaps another")]
fn one_tensor_is_not_two_outputs() {
    let t = Tensor::zeros(U8, &[8]).unwrap();
    let outputs = smallvec::smallvec![None, None];
    let mut access = Access::new(smallvec::smallvec![], outputs, None);
    access.set_output(0, &t);
    access.set_output(1, &t);
}
