// Windows over images. A plane is one channel of one image: height * width pixels, row by row. Sizes of windows come as pairs
// (vertical, horizontal); the padding is the number of rows above and of columns left of the image.

/**
 * Lays out the windows of `channels` planes as columns (im2col): row (c, ky, kx) of `out` has the pixel that filter element
 * (ky, kx) of channel c reads at each output position; padding is 0. out is [channels * kernelY * kernelX, outY * outX].
 */
export function columns(
  x: usize, out: usize, channels: i32, height: i32, width: i32, kernelY: i32, kernelX: i32, strideY: i32, strideX: i32,
  padY: i32, padX: i32, stepY: i32, stepX: i32, outY: i32, outX: i32,
): void {
  const rowBytes = <usize>outX << 2;
  let to = out;
  for (let c = 0; c < channels; c++) {
    const plane = x + ((<usize>c * <usize>height * <usize>width) << 2);
    for (let ky = 0; ky < kernelY; ky++) {
      for (let kx = 0; kx < kernelX; kx++) {
        const left = kx * stepX - padX;
        const first = firstInside(left, strideX, outX);
        const end = endInside(left, strideX, outX, width);
        for (let oy = 0; oy < outY; oy++) {
          const iy = oy * strideY - padY + ky * stepY;
          if (iy < 0 || iy >= height) memory.fill(to, 0, rowBytes);
          else gatherRow(plane + (<usize>(iy * width) << 2), to, left, strideX, first, end, outX);
          to += rowBytes;
        }
      }
    }
  }
}

// @ts-ignore: decorator
@inline
function gatherRow(row: usize, to: usize, left: i32, stride: i32, first: i32, end: i32, outX: i32): void {
  for (let i = 0; i < first; i++) store<f32>(to + (<usize>i << 2), 0);
  if (stride == 1) {
    let i = first;
    for (; i + 4 <= end; i += 4) v128.store(to + (<usize>i << 2), v128.load(row + (<usize>(left + i) << 2)));
    for (; i < end; i++) store<f32>(to + (<usize>i << 2), load<f32>(row + (<usize>(left + i) << 2)));
  } else {
    for (let i = first; i < end; i++)
      store<f32>(to + (<usize>i << 2), load<f32>(row + (<usize>(left + i * stride) << 2)));
  }
  for (let i = end; i < outX; i++) store<f32>(to + (<usize>i << 2), 0);
}

/** Adds each element of the columns to the pixel from which `columns` reads the element (col2im). Arguments: as in `columns`. */
export function addColumns(
  x: usize, out: usize, channels: i32, height: i32, width: i32, kernelY: i32, kernelX: i32, strideY: i32, strideX: i32,
  padY: i32, padX: i32, stepY: i32, stepX: i32, outY: i32, outX: i32,
): void {
  const rowBytes = <usize>outX << 2;
  let from = out;
  for (let c = 0; c < channels; c++) {
    const plane = x + ((<usize>c * <usize>height * <usize>width) << 2);
    for (let ky = 0; ky < kernelY; ky++) {
      for (let kx = 0; kx < kernelX; kx++) {
        const left = kx * stepX - padX;
        const first = firstInside(left, strideX, outX);
        const end = endInside(left, strideX, outX, width);
        for (let oy = 0; oy < outY; oy++) {
          const iy = oy * strideY - padY + ky * stepY;
          if (iy >= 0 && iy < height) scatterRow(plane + (<usize>(iy * width) << 2), from, left, strideX, first, end);
          from += rowBytes;
        }
      }
    }
  }
}

// @ts-ignore: decorator
@inline
function scatterRow(row: usize, from: usize, left: i32, stride: i32, first: i32, end: i32): void {
  let i = first;
  if (stride == 1) {
    for (; i + 4 <= end; i += 4) {
      const at = row + (<usize>(left + i) << 2);
      v128.store(at, f32x4.add(v128.load(at), v128.load(from + (<usize>i << 2))));
    }
  }
  for (; i < end; i++) {
    const at = row + (<usize>(left + i * stride) << 2);
    store<f32>(at, load<f32>(at) + load<f32>(from + (<usize>i << 2)));
  }
}

/** Returns the first output position whose pixel is not left of the image. */
// @ts-ignore: decorator
@inline
function firstInside(left: i32, stride: i32, outX: i32): i32 {
  return left >= 0 ? 0 : min(outX, (stride - 1 - left) / stride);
}

/** Returns the first output position whose pixel is right of the image; the result is at least `firstInside`. */
// @ts-ignore: decorator
@inline
function endInside(left: i32, stride: i32, outX: i32, width: i32): i32 {
  const end = left >= width ? 0 : (width - 1 - left) / stride + 1;
  return max(firstInside(left, stride, outX), min(outX, end));
}

/**
 * Writes each window's largest value to y, and the pixel's index in its plane to `places` (int32); of equal values the first
 * one counts, and NaN is the largest. Padding is not in a window.
 */
export function maxPool(
  x: usize, y: usize, places: usize, planes: i32, height: i32, width: i32, kernelY: i32, kernelX: i32, strideY: i32,
  strideX: i32, padY: i32, padX: i32, stepY: i32, stepX: i32, outY: i32, outX: i32,
): void {
  let at: usize = 0;
  for (let p = 0; p < planes; p++) {
    const plane = x + ((<usize>p * <usize>height * <usize>width) << 2);
    for (let oy = 0; oy < outY; oy++) {
      for (let ox = 0; ox < outX; ox++) {
        let best: f32 = -Infinity;
        let place = -1;
        for (let ky = 0; ky < kernelY; ky++) {
          const iy = oy * strideY - padY + ky * stepY;
          if (iy < 0 || iy >= height) continue;
          for (let kx = 0; kx < kernelX; kx++) {
            const ix = ox * strideX - padX + kx * stepX;
            if (ix < 0 || ix >= width) continue;
            const value = load<f32>(plane + (<usize>(iy * width + ix) << 2));
            if (place < 0 || value > best || value != value) {
              best = value;
              place = iy * width + ix;
            }
          }
        }
        store<f32>(y + at, best);
        store<i32>(places + at, place);
        at += 4;
      }
    }
  }
}

/** Adds each element of dy to the pixel that `places` names; dx has `size` pixels per plane, dy and places have `count`. */
export function maxPoolGrad(dy: usize, places: usize, dx: usize, planes: i32, size: i32, count: i32): void {
  memory.fill(dx, 0, (<usize>planes * <usize>size) << 2);
  for (let p = 0; p < planes; p++) {
    const plane = dx + ((<usize>p * <usize>size) << 2);
    const from = (<usize>p * <usize>count) << 2;
    for (let i = 0; i < count; i++) {
      const at = from + (<usize>i << 2);
      const place = load<i32>(places + at);
      if (place < 0 || place >= size) continue;
      const to = plane + (<usize>place << 2);
      store<f32>(to, load<f32>(to) + load<f32>(dy + at));
    }
  }
}
