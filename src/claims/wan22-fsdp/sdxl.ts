import type { Estimate } from '../../planner';

/** The U-Net of Stable Diffusion XL. Source: its published configuration (unet/config.json of stable-diffusion-xl-base-1.0). */
const UNET = {
  channels: [320, 640, 1280],
  /** Number of transformer layers at each of these widths. */
  depth: [0, 2, 10],
  resnetsDown: 2,
  resnetsUp: 3,
  textTokens: 77,
  textDim: 2048,
  latent: 128,
} as const;

const PEAK = 8 * 312e12;

/** Returns the operations of a 3 x 3 convolution. */
function conv(positions: number, inputs: number, outputs: number): number {
  return 2 * 9 * positions * inputs * outputs;
}

function resnet(positions: number, inputs: number, outputs: number): number {
  const shortcut = inputs === outputs ? 0 : 2 * positions * inputs * outputs;
  return conv(positions, inputs, outputs) + conv(positions, outputs, outputs) + shortcut;
}

/** Returns the operations of layers of attention, cross-attention and gated feed-forward, between two projections. */
function transformer(positions: number, dim: number, depth: number): number {
  if (depth === 0) return 0;
  const self = 2 * positions * 4 * dim ** 2 + 4 * positions ** 2 * dim;
  const { textTokens, textDim } = UNET;
  const cross = 4 * positions * dim ** 2 + 4 * textTokens * textDim * dim + 4 * positions * textTokens * dim;
  const feedForward = 2 * positions * (8 + 4) * dim ** 2;
  return depth * (self + cross + feedForward) + 4 * positions * dim ** 2;
}

/** Returns the FLOPs of one forward on an image of `latent` x `latent` latents (a side has 8 pixels per latent). */
export function sdxlForwardFlops(latent: number = UNET.latent): number {
  const { channels, depth, resnetsDown, resnetsUp } = UNET;
  let flops = conv(latent ** 2, 4, channels[0]) + conv(latent ** 2, channels[0], 4);
  const skips: number[] = [channels[0]];
  let width: number = channels[0];
  channels.forEach((dim, level) => {
    const positions = (latent / 2 ** level) ** 2;
    for (let i = 0; i < resnetsDown; i++) {
      flops += resnet(positions, width, dim) + transformer(positions, dim, depth[level] ?? 0);
      width = dim;
      skips.push(width);
    }
    if (level === channels.length - 1) return;
    flops += conv(positions / 4, dim, dim);
    skips.push(width);
  });
  const middle = (latent / 4) ** 2;
  flops += 2 * resnet(middle, width, width) + transformer(middle, width, depth[2]);
  [...channels].reverse().forEach((dim, i) => {
    const level = channels.length - 1 - i;
    const positions = (latent / 2 ** level) ** 2;
    for (let j = 0; j < resnetsUp; j++) {
      flops +=
        resnet(positions, width + (skips.pop() ?? 0), dim) + transformer(positions, dim, depth[level] ?? 0);
      width = dim;
    }
    if (level > 0) flops += conv(4 * positions, dim, dim);
  });
  return flops;
}

/**
 * Returns the speed of training on 8 A100 in samples per second, by default at 1024 x 1024. The GPUs are assumed to reach 45% (30
 * to 60%) of their peak, which is usual for such convolutions.
 */
export function sdxlSamplesPerSecond(latent: number = UNET.latent): Estimate {
  const at = (share: number): number => (share * PEAK) / (3 * sdxlForwardFlops(latent));
  return { value: at(0.45), low: at(0.3), high: at(0.6) };
}

/** Returns the largest side in latents, in steps of 64 pixels, with which this speed is reached. */
export function largestLatent(samplesPerSecond: number): number {
  let latent: number = UNET.latent;
  while (latent > 8 && sdxlSamplesPerSecond(latent).value < samplesPerSecond) latent -= 8;
  return latent;
}
