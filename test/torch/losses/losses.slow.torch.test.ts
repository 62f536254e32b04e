import { compareLosses } from './compare-losses';
import { CASES } from './loss-cases';

compareLosses(CASES.filter(({ ranks }) => ranks > 2));
