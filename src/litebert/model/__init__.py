"""The ALBERT and BERT model family: single-device torch code, no files, no distribution."""
