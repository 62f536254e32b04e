import { compareLosses } from './compare-losses';
import { DEEPSPEED_CASES, PRECISION_CASES } from './precision-cases';

compareLosses([...PRECISION_CASES, ...DEEPSPEED_CASES]);
