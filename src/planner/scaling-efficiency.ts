import { CALIBRATION, type Calibration } from './calibration';
import type { Layout } from './layout';
import { predict } from './predict';
import type { Estimate } from './prediction';
import { COMPUTE_DOUBT, NETWORK_SPREAD, SPREADS } from './uncertainty';

/** Relative errors of collectives between nodes and of matmuls, as in the time's interval. */
const NETWORK_DOUBT = SPREADS * NETWORK_SPREAD;
const PRODUCT_DOUBT = SPREADS * COMPUTE_DOUBT.products[0];

/**
 * Returns the tokens per second per GPU of `layout`, divided by those of `first`; 1: nothing is lost. Errors that are the
 * same for both layouts cancel out, so the interval is narrower than the interval of the times. One end of the interval is the
 * ratio with the slowest network and the fastest matmuls, which hide less communication. The other end is the ratio with the
 * fastest network and the slowest matmuls.
 */
export function scalingEfficiency(layout: Layout, first: Layout): Estimate {
  const value = ratio(layout, first, CALIBRATION);
  const ends = [perturbed(1), perturbed(-1)].map((constants) => ratio(layout, first, constants));
  return { value, low: Math.min(value, ...ends), high: Math.max(value, ...ends) };
}

function ratio(layout: Layout, first: Layout, constants: Calibration): number {
  return predict(layout, constants).tokensPerSecondPerGpu / predict(first, constants).tokensPerSecondPerGpu;
}

/**
 * Returns constants with a slow network and fast matmuls (1), or a fast network and slow matmuls (-1). No efficiency is above 1.
 */
function perturbed(direction: 1 | -1): Calibration {
  const network = (1 + NETWORK_DOUBT) ** -direction;
  const products = (1 + PRODUCT_DOUBT) ** direction;
  const { nicEfficiency, linkEfficiency, gemmEfficiency } = CALIBRATION;
  return {
    ...CALIBRATION,
    nicEfficiency: Math.min(1, nicEfficiency * network),
    linkEfficiency: Math.min(1, linkEfficiency * network),
    gemmEfficiency: Math.min(1, gemmEfficiency * products),
  };
}
