/** A number for both axes of an image, or a pair (vertical, horizontal). */
export type Pair = number | readonly [number, number];

/** The attributes of a kernel that moves a window over images [N, C, H, W]. */
export interface WindowAttributes {
  readonly strides: readonly [number, number];
  /** Pixels above, below, left and right of the image. */
  readonly padding: readonly [number, number, number, number];
  readonly dilations: readonly [number, number];
  /** Whether the last window counts if it begins inside of the padded image and ends outside of it. */
  readonly ceilMode?: boolean;
}

/**
 * The sizes that kernels in assembly need for a window. Each pair is (vertical, horizontal); `padding` is above and left of the
 * image.
 */
export type WindowNumbers = readonly [
  ...image: [number, number],
  ...kernel: [number, number],
  ...strides: [number, number],
  ...padding: [number, number],
  ...dilations: [number, number],
  ...out: [number, number],
];

/** Returns the sizes of a window that moves over images; the result's sizes may be 0 or less if the window does not fit. */
export function windowNumbers(
  image: readonly number[],
  kernel: readonly number[],
  attrs: WindowAttributes,
): WindowNumbers {
  const [height = 0, width = 0] = image;
  const [kernelY = 1, kernelX = 1] = kernel;
  const { strides, padding, dilations, ceilMode = false } = attrs;
  const [top, bottom, left, right] = padding;
  const outY = positions(height, top, bottom, (kernelY - 1) * dilations[0] + 1, strides[0], ceilMode);
  const outX = positions(width, left, right, (kernelX - 1) * dilations[1] + 1, strides[1], ceilMode);
  return [height, width, kernelY, kernelX, ...strides, top, left, ...dilations, outY, outX];
}

/** Returns the number of positions of a window along one axis. Source: torch's pooling_output_shape. */
function positions(
  length: number,
  before: number,
  after: number,
  extent: number,
  stride: number,
  ceilMode: boolean,
): number {
  const steps = (length + before + after - extent) / stride;
  const count = (ceilMode ? Math.ceil(steps) : Math.floor(steps)) + 1;
  // A window must not begin in the padding below or right of the image.
  return ceilMode && (count - 1) * stride >= length + before ? count - 1 : count;
}

/** The sizes of a convolution. */
export interface ConvSizes {
  readonly images: number;
  readonly groups: number;
  /** Input channels per group. */
  readonly channels: number;
  /** Output channels per group. */
  readonly outputs: number;
  /** Elements of the filter of one output channel. */
  readonly depth: number;
  /** Pixels of one output channel. */
  readonly area: number;
  /** Pixels of one input channel. */
  readonly inputArea: number;
  readonly numbers: WindowNumbers;
  readonly outShape: number[];
  /** Whether the columns equal the image, as for 1 x 1 filters without stride and padding. */
  readonly isPlain: boolean;
}

/** Returns the sizes of a convolution of `x` [N, C, H, W] by `filter` [outputs, C / groups, height, width]. */
export function convSizes(
  x: readonly number[],
  filter: readonly number[],
  attrs: WindowAttributes & { readonly groups: number },
): ConvSizes {
  const [images = 0, , height = 0, width = 0] = x;
  const [allOutputs = 0, channels = 0, kernelY = 1, kernelX = 1] = filter;
  const numbers = windowNumbers([height, width], [kernelY, kernelX], attrs);
  const [outY, outX] = [numbers[10], numbers[11]];
  const { groups, strides, padding } = attrs;
  return {
    ...{ images, groups, channels, numbers },
    outputs: allOutputs / groups,
    depth: channels * kernelY * kernelX,
    area: outY * outX,
    inputArea: height * width,
    outShape: [images, allOutputs, outY, outX],
    isPlain: [kernelY, kernelX, ...strides].every((n) => n === 1) && padding.every((n) => n === 0),
  };
}
