import { useCodeCache } from './code-cache';

// A thread that loads as many modules as a program imports this module first.
useCodeCache();
