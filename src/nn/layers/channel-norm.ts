import { withGradients } from '../../core';
import * as tf from '../../core/tf';
import { FUSED, runForFirst, runFused } from '../../engine';
import type { CollectiveOptions, ProcessGroup } from '../../wire';

/** The mean [C] and biased variance [C] of each channel; `count` [1] is the number of elements per channel. */
export interface Moments {
  readonly mean: tf.Tensor;
  readonly variance: tf.Tensor;
  readonly count: tf.Tensor;
}

/** The ranks whose inputs are normalized together, and the options of their collectives. */
export interface NormGroup {
  readonly group: ProcessGroup;
  readonly options: CollectiveOptions;
}

/** Options of the normalization of channels. */
export interface NormOptions {
  /** The number that is added to variances. */
  readonly eps: number;
  /** The ranks that normalize together. Default: each rank normalizes its own input. */
  readonly together?: NormGroup | null;
}

/**
 * Normalizes each channel of x [N, C, …] by its own moments, then scales and shifts the channel. If several ranks normalize
 * together, the moments are over the inputs of all these ranks. Also returns the moments, which the caller disposes.
 *
 * [Note: gradient of a batch norm] With n elements per channel, dx = scale (dy − mean(dy) − (x − mean) rstd² mean(dy (x −
 * mean))). In a group, both means are over all ranks. The gradients of weight and bias are only this rank's sums, because a
 * strategy reduces these gradients. Source: Ioffe and Szegedy 2015; torch's batch_norm_backward_reduce and
 * batch_norm_backward_elemt.
 */
export function normalizeChannels(
  x: tf.Tensor,
  weight: tf.Tensor,
  bias: tf.Tensor,
  { eps, together = null }: NormOptions,
): { readonly y: tf.Tensor; readonly moments: Moments } {
  let moments: Moments | undefined;
  const y = withGradients([x, weight, bias], (save) => {
    moments = tf.tidy(() => momentsOf(x, together));
    for (const tensor of Object.values(moments)) tf.keep(tensor);
    const { mean, variance, count } = moments;
    const rstd = tf.rsqrt(tf.add(variance, eps));
    save([x, weight, mean, rstd, count]);
    return {
      value: affine(x, weight, bias, mean, rstd),
      gradients: (dy, saved) => gradientsOf(dy, saved, together),
    };
  });
  return { y, moments: moments as Moments }; // the function above has set them
}

/**
 * Returns (x − mean) rstd · weight + bias for each channel of x [N, C, …]. No gradient flows to `mean` and `rstd`.
 */
export function scaleChannels(
  x: tf.Tensor,
  weight: tf.Tensor,
  bias: tf.Tensor,
  mean: tf.Tensor,
  rstd: tf.Tensor,
): tf.Tensor {
  return withGradients([x, weight, bias], (save) => {
    save([x, weight, mean, rstd]);
    return {
      value: affine(x, weight, bias, mean, rstd),
      gradients: (dy, saved) => {
        const [input, factor, centre, scale] = saved as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]; // `save` got four tensors
        const products = runForFirst(FUSED.channelProducts, { x: input, dy, mean: centre });
        const factors = { scale: tf.mul(factor, scale), shift: tf.zerosLike(factor) };
        return [
          runForFirst(FUSED.channelAffine, { x: dy, ...factors }),
          tf.mul(products, scale),
          runForFirst(FUSED.channelSums, { x: dy }),
        ];
      },
    };
  });
}

function affine(
  x: tf.Tensor,
  weight: tf.Tensor,
  bias: tf.Tensor,
  mean: tf.Tensor,
  rstd: tf.Tensor,
): tf.Tensor {
  const scale = tf.mul(weight, rstd);
  return runForFirst(FUSED.channelAffine, { x, scale, shift: tf.sub(bias, tf.mul(mean, scale)) });
}

function momentsOf(x: tf.Tensor, together: NormGroup | null): Moments & tf.NamedTensorMap {
  const channels = x.shape[1] ?? 1;
  const isEmpty = x.size === 0;
  // An empty input has no moments; zeros with the count 0 leave it out of the moments of a group.
  const [mean, variance] = (
    isEmpty ? [tf.zeros([channels]), tf.zeros([channels])] : runFused(FUSED.channelMoments, { x })
  ) as [tf.Tensor, tf.Tensor]; // the kernel has two outputs
  const count = tf.tensor1d([x.size / channels]);
  if (together === null) return { mean, variance, count };
  const { group, options } = together;
  const own = tf.reshape(tf.concat([mean, variance, count]), [1, 2 * channels + 1]);
  const all = group.allGather(own, options).wait();
  const [means, variances, counts] = tf.split(all, [channels, channels, 1], 1) as [
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
  ];
  const total = tf.sum(counts, 0);
  const centre = tf.div(tf.sum(tf.mul(means, counts), 0), total);
  const spread = tf.add(variances, tf.square(tf.sub(means, centre)));
  all.dispose();
  return { mean: centre, variance: tf.div(tf.sum(tf.mul(spread, counts), 0), total), count: total };
}

/** Returns the gradients of x, weight and bias. See [Note: gradient of a batch norm]. */
function gradientsOf(dy: tf.Tensor, saved: readonly tf.Tensor[], together: NormGroup | null): tf.Tensor[] {
  const [x, weight, mean, rstd, count] = saved as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor];
  const sums = runForFirst(FUSED.channelSums, { x: dy });
  const products = runForFirst(FUSED.channelProducts, { x, dy, mean });
  const all = tf.concat([sums, products]);
  if (together !== null) together.group.allReduce(all, 'sum', together.options).wait();
  const [offset, slope] = tf.split(tf.div(all, count), 2) as [tf.Tensor, tf.Tensor];
  const dx = runForFirst(FUSED.channelGrad, {
    ...{ x, dy, mean, offset },
    scale: tf.mul(weight, rstd),
    slope: tf.mul(slope, tf.square(rstd)),
  });
  return [dx, tf.mul(products, rstd), sums];
}
