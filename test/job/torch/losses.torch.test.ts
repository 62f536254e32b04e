import { CASES, compareLosses } from './loss-cases';

compareLosses(CASES.filter(({ ranks }) => ranks <= 2));
