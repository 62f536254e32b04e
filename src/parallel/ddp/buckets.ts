import type { Parameter } from '../../nn/parameter';

/** Sizes of gradient buckets. */
export interface BucketSizes {
  /** Source: bucket_cap_mb of torch.nn.parallel.DistributedDataParallel, 25 MiB. */
  readonly bucketBytes: number;
  /** The first bucket is small so that communication starts early. Source: dist._DEFAULT_FIRST_BUCKET_BYTES, 1 MiB. */
  readonly firstBucketBytes: number;
}

/** torch's sizes. */
export const DEFAULT_BUCKET_SIZES: BucketSizes = { bucketBytes: 25 * 2 ** 20, firstBucketBytes: 2 ** 20 };

/**
 * Parameters in the order in which backward is expected to finish them (the reverse of their definition), divided into
 * buckets; a bucket is closed once it reaches its size. Source: torch's compute_bucket_assignment_by_size.
 */
export function assignBuckets(parameters: readonly Parameter[], sizes: BucketSizes): Parameter[][] {
  const buckets: Parameter[][] = [];
  let open: Parameter[] = [];
  let bytes = 0;
  for (const parameter of [...parameters].reverse()) {
    open.push(parameter);
    bytes += 4 * parameter.size;
    const limit = buckets.length === 0 ? sizes.firstBucketBytes : sizes.bucketBytes;
    if (bytes < limit) continue;
    buckets.push(open);
    open = [];
    bytes = 0;
  }
  if (open.length > 0) buckets.push(open);
  return buckets;
}
