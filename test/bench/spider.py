"""A peer to measure the robot against: Scrapy, following every link of the seeds' hosts and keeping nothing.

scrapy runspider spider.py -a seeds=FILE
"""
from urllib.parse import urlsplit

import scrapy


class Spider(scrapy.Spider):
    name = "bench"
    custom_settings = {
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": 100,
        "LOG_LEVEL": "ERROR",
        "TELNETCONSOLE_ENABLED": False,
        "RETRY_ENABLED": False,
    }

    def __init__(self, seeds, **kwargs):
        super().__init__(**kwargs)
        with open(seeds) as f:
            self.start_urls = f.read().split()
        self.allowed_domains = [urlsplit(u).hostname for u in self.start_urls]

    def parse(self, response):
        if not hasattr(response, "css"):
            return
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, self.parse)
