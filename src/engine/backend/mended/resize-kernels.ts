import { type Attributes, type Kernel, present, replaceKernel, type WasmContext } from '../wasm-context';

/** The pixels along one axis that a result's pixel is made of, with their weights. */
type Taps = readonly (readonly [pixel: number, weight: number])[];

/**
 * Replaces the gradients of resized images: tfjs's ignore `halfPixelCenters`. The attribute comes from mended-gradients.ts.
 * Source: tfjs-backend-cpu 4.22, ResizeBilinear and ResizeNearestNeighbor.
 */
export function registerResizeGradients(context: WasmContext): void {
  replaceKernel('ResizeBilinearGrad', () => resizeGradient(context, bilinear));
  replaceKernel('ResizeNearestNeighborGrad', () => resizeGradient(context, nearest));
}

interface Centers {
  readonly alignCorners: boolean;
  readonly halfPixelCenters: boolean;
}

type TapsOf = (out: number, outLength: number, length: number, centers: Centers) => Taps;

function resizeGradient({ backend, hasValues, kernels }: WasmContext, tapsOf: TapsOf): Kernel {
  return ({ images, dy }, attrs: Attributes) => {
    const [batch = 0, height = 0, width = 0, channels = 0] = present(images).shape;
    const [, outHeight = 0, outWidth = 0] = present(dy).shape;
    const dx = backend.makeOutput(present(images).shape, 'float32');
    if (!hasValues) return dx;
    const centers = {
      alignCorners: attrs.alignCorners === true,
      halfPixelCenters: attrs.halfPixelCenters === true,
    };
    const [from, to] = [present(dy), dx].map(
      (info) => backend.dataIdMap.get(info.dataId).memoryOffset ?? 0,
    ) as [number, number];
    kernels.fill(to, 0, batch * height * width * channels);
    const rows = Array.from({ length: outHeight }, (_, y) => tapsOf(y, outHeight, height, centers));
    const columns = Array.from({ length: outWidth }, (_, x) => tapsOf(x, outWidth, width, centers));
    for (let image = 0; image < batch; image++) {
      for (const [y, rowTaps] of rows.entries()) {
        for (const [x, columnTaps] of columns.entries()) {
          const source = from + 4 * channels * ((image * outHeight + y) * outWidth + x);
          for (const [row, rowWeight] of rowTaps) {
            for (const [column, weight] of columnTaps) {
              const target = to + 4 * channels * ((image * height + row) * width + column);
              kernels.addScaled(target, source, rowWeight * weight, channels);
            }
          }
        }
      }
    }
    return dx;
  };
}

function scaleOf(outLength: number, length: number, { alignCorners }: Centers): number {
  return alignCorners && outLength > 1 ? (length - 1) / (outLength - 1) : length / outLength;
}

const bilinear: TapsOf = (out, outLength, length, centers) => {
  const scale = scaleOf(outLength, length, centers);
  const place = centers.halfPixelCenters ? scale * (out + 0.5) - 0.5 : scale * out;
  const below = Math.max(0, Math.floor(place));
  const above = Math.min(length - 1, Math.ceil(place));
  const weight = place - below;
  return [
    [below, 1 - weight],
    [above, weight],
  ];
};

const nearest: TapsOf = (out, outLength, length, centers) => {
  const scale = scaleOf(outLength, length, centers);
  const place = centers.halfPixelCenters ? scale * (out + 0.5) : scale * out;
  const whole = centers.alignCorners ? Math.round(place) : Math.floor(place);
  return [[Math.min(length - 1, centers.halfPixelCenters ? Math.max(0, whole) : whole), 1]];
};
