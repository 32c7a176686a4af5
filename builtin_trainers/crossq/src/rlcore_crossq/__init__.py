"""CrossQ and XQC, a plugin of rlcore: soft actor-critics whose networks normalize over minibatches."""
