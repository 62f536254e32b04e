import { CALIBRATION, type Calibration } from './calibration';
import type { Layout } from './layout';
import { predict } from './predict';
import type { Estimate } from './prediction';

/**
 * How far collectives between nodes and matmuls may lie from their constants, relative, 90% two-sided: 1.64 times the standard
 * deviations that the time's interval rests on (uncertainty.ts).
 */
const NETWORK_DOUBT = 1.64 * 0.35;
const PRODUCT_DOUBT = 1.64 * 0.07;

/**
 * Tokens per second and GPU of `layout` over those of `first`, 1 where nothing is lost. What both have in common cancels, so the
 * interval is not that of the times: it is what comes out where the network is as slow as may be and matmuls as fast as may be
 * (less is hidden then), and the other way round.
 */
export function scalingEfficiency(layout: Layout, first: Layout): Estimate {
  const value = ratio(layout, first, CALIBRATION);
  const ends = [perturbed(1), perturbed(-1)].map((constants) => ratio(layout, first, constants));
  return { value, low: Math.min(value, ...ends), high: Math.max(value, ...ends) };
}

function ratio(layout: Layout, first: Layout, constants: Calibration): number {
  return predict(layout, constants).tokensPerSecondPerGpu / predict(first, constants).tokensPerSecondPerGpu;
}

/** 1: slow network and fast matmuls; -1: the reverse. No efficiency is above 1. */
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
